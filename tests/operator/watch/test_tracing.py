"""Traces, as a real collector's port receives them."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from llmservice_operator.controller import Next, Outcome
from llmservice_operator.live import kinds
from llmservice_operator.live.store import Key, Store
from llmservice_operator.watch import tracing
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

CHILDREN = "/apis/apps/v1/namespaces/here/deployments"


async def test_a_reconcile_is_a_span_and_each_write_one_below_it(monkeypatch: pytest.MonkeyPatch) -> None:
    received: list[Span] = []

    async def collect(request: web.Request) -> web.Response:
        message = ExportTraceServiceRequest.FromString(await request.read())
        received.extend(s for r in message.resource_spans for scope in r.scope_spans for s in scope.spans)
        return web.Response(body=b"", content_type="application/x-protobuf")

    async def accept(_: web.Request) -> web.Response:
        return web.json_response({"metadata": {}})

    app = web.Application()
    app.router.add_post("/v1/traces", collect)
    app.router.add_route("*", "/apis/{rest:.*}", accept)
    store = Store(kinds.REQUIRED)
    metadata = {"name": "chat", "namespace": "here", "uid": "1", "generation": 7, "resourceVersion": "1"}
    store.put(kinds.LLMSERVICE, {"metadata": metadata})
    async with TestServer(app) as server, aiohttp.ClientSession() as session:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", str(server.make_url("/")).rstrip("/"))
        client = tracing.client(session, str(server.make_url("/")))

        async def handle(_: Key) -> Outcome:
            await client.get(CHILDREN)
            await client.create(CHILDREN, {})
            return Outcome(Next.DONE)

        await tracing.reconciles(client, store, handle)(Key("here", "chat"))  # type: ignore[arg-type]
        await asyncio.to_thread(tracing.flush, client)

    by_name = {span.name: span for span in received}
    assert by_name.keys() == {"reconcile", "POST deployments"}
    reconcile, write = by_name["reconcile"], by_name["POST deployments"]
    assert write.parent_span_id == reconcile.span_id
    said = {one.key: one.value.string_value or one.value.int_value for one in reconcile.attributes}
    assert said == {"object": "here/chat", "generation": 7, "outcome": "done"}


async def test_without_an_endpoint_nothing_is_traced(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in tracing.ENDPOINTS:
        monkeypatch.delenv(name, raising=False)
    async with aiohttp.ClientSession() as session:
        client = tracing.client(session, "http://127.0.0.1:1")
        assert not isinstance(client, tracing.TracedClient)

        async def handle(_: object) -> Outcome:
            return Outcome(Next.DONE)

        assert tracing.reconciles(client, Store(kinds.REQUIRED), handle) is handle
