"""OpenTelemetry: one span a reconcile, below it one for each write that it makes, sent over OTLP/HTTP.

Off unless one of :data:`ENDPOINTS` is set; then it needs the extra ``otel``. Everything else (service name, sampling,
headers, limits) is set by the SDK's own variables. Off, nothing of it is imported and nothing runs.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

import aiohttp

from llmservice_operator.api import names
from llmservice_operator.api.cache_key import CacheKey
from llmservice_operator.controller import Outcome
from llmservice_operator.live import kinds
from llmservice_operator.live.client import Client, Written
from llmservice_operator.live.store import Key, Store

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
FLUSH = 0.5  # seconds at the end for what was not sent yet

Handle = Callable[[Key | CacheKey], Coroutine[Any, Any, Outcome]]

logger = logging.getLogger(__name__)


class TracedClient(Client):
    """Its writes are spans; within a reconcile, of that reconcile."""

    def __init__(self, session: aiohttp.ClientSession, server: str, provider: TracerProvider) -> None:
        super().__init__(session, server)
        self.provider = provider
        self.tracer = provider.get_tracer(names.MANAGER)

    async def _call(self, method: str, path: str, **given: Any) -> Written:
        _, _, within = path.partition("/namespaces/")
        resource = "/".join(within.split("/")[1::2])  # namespace/plural/name/subresource
        if method == "GET" or resource == "leases":
            return await super()._call(method, path, **given)
        with self.tracer.start_as_current_span(f"{method} {resource}", attributes={"url.path": path}):
            return await super()._call(method, path, **given)


def client(session: aiohttp.ClientSession, server: str) -> Client:
    """A traced one where traces are asked for and the extra is there."""
    asked = next((name for name in ENDPOINTS if os.environ.get(name)), None)
    if asked is None:
        return Client(session, server)
    os.environ.setdefault("OTEL_SERVICE_NAME", names.MANAGER)
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        logger.warning("%s is set, but no traces are sent: pip install 'llmservice[otel]'", asked)
        return Client(session, server)
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return TracedClient(session, server, provider)


def reconciles(client: Client, store: Store, handle: Handle) -> Handle:
    """``handle``, each call in a span where the client is traced."""
    if not isinstance(client, TracedClient):
        return handle
    tracer = client.tracer

    async def traced(key: Key | CacheKey) -> Outcome:
        with tracer.start_as_current_span("reconcile", attributes={"object": str(key)}) as span:
            body = None if isinstance(key, CacheKey) else store.get(kinds.LLMSERVICE, *key)
            if body is not None:
                span.set_attribute("generation", body["metadata"]["generation"])
            outcome = await handle(key)
            span.set_attribute("outcome", outcome.next.value)
            return outcome

    return traced


def flush(client: Client) -> None:
    """Send what is left, within :data:`FLUSH`: a collector that is away holds up no end."""
    if isinstance(client, TracedClient):
        last = threading.Thread(target=client.provider.shutdown, daemon=True)
        last.start()
        last.join(FLUSH)
