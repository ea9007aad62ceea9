"""The TLS port with everything behind it, beside an API server that is small but speaks HTTP."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from llmservice_operator.api import names
from llmservice_operator.live.client import Client
from llmservice_operator.metrics_api import certificate, keeper, scraper
from llmservice_operator.metrics_api.callers import FrontProxy
from llmservice_operator.metrics_api.listener import Listener
from llmservice_operator.metrics_api.pods import ReadyPods
from llmservice_operator.metrics_api.reviews import Reviews
from llmservice_operator.metrics_api.routes import Api
from llmservice_operator.metrics_api.scraper import Scraper

from e2e.cluster import pki
from tests.operator.metrics_api import authority

SERVICE = "metrics.llmservice-system.svc"
ENGINE = "vllm:num_requests_waiting 4\nvllm:num_requests_running 1\nvllm:kv_cache_usage_perc 0.5\n"


class Judge:
    """The API server's two reviews: who may read what, and whose a token is."""

    def __init__(self) -> None:
        self.tokens = {"good": {"username": "somebody", "groups": ["system:authenticated"]}}
        self.allowed = {"system:serviceaccount:kube-system:horizontal-pod-autoscaler"}
        self.reviewed: list[dict[str, Any]] = []
        self.down = False

    async def review(self, request: web.Request) -> web.Response:
        if self.down:
            return web.json_response({"kind": "Status", "message": "starting"}, status=503)
        body = await request.json()
        self.reviewed.append(body)
        if body["kind"] == "TokenReview":
            user = self.tokens.get(body["spec"]["token"])
            return web.json_response(
                {"status": {"authenticated": user is not None, "user": user or {}}}, status=201
            )
        return web.json_response({"status": {"allowed": body["spec"]["user"] in self.allowed}}, status=201)

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [body["spec"] for body in self.reviewed if body["kind"] == kind]


class Front:
    """The server under test, and ways to call it."""

    def __init__(self, api: Api, listener: Listener, judge: Judge, pods: ReadyPods, folder: Path) -> None:
        self.api, self.listener, self.judge, self.pods = api, listener, judge, pods
        self.proxy_authority = pki.authority("front-proxy-ca")
        self.material = certificate.current(None, (SERVICE,), datetime.now(UTC))
        self._folder = folder

    async def serve(self) -> None:
        """With the material and the front proxy's authority as they are now."""
        self.api.front_proxy = FrontProxy.parse(authority.configmap(self.proxy_authority))
        await self.listener.use(keeper.context(self.material, self.api.front_proxy))

    def tls(self, signer: pki.Pair | None = None, name: str = "front-proxy-client") -> ssl.SSLContext:
        return authority.client(self.material.authority, self._folder, signer, name)

    async def get(
        self, path: str, tls: ssl.SSLContext, method: str = "GET", **headers: str
    ) -> tuple[int, dict[str, Any]]:
        """Status and body over a connection of its own."""
        given = {key.replace("_", "-"): value for key, value in headers.items()}
        url = f"https://127.0.0.1:{self.listener.port}{path}"
        async with (
            aiohttp.ClientSession() as session,
            session.request(method, url, ssl=tls, server_hostname=SERVICE, headers=given) as answer,
        ):
            assert answer.content_type == "application/json"
            return answer.status, await answer.json()

    async def proxied(self, path: str, user: str, *groups: str) -> tuple[int, dict[str, Any]]:
        """As the API server passes a request on."""
        url = f"https://127.0.0.1:{self.listener.port}{path}"
        headers = [("X-Remote-User", user), *(("X-Remote-Group", group) for group in groups)]
        headers.append(("Accept", "application/vnd.kubernetes.protobuf,application/json"))
        tls = self.tls(self.proxy_authority)
        async with (
            aiohttp.ClientSession() as session,
            session.get(url, ssl=tls, server_hostname=SERVICE, headers=headers) as answer,
        ):
            assert answer.content_type == "application/json"
            return answer.status, await answer.json()

    def engine(self, uid: str = "1", service: str = "chat", address: str = "127.0.0.1") -> None:
        """A ready pod, at the engine that this machine plays."""
        self.pods.put(
            {
                "metadata": {"uid": uid, "namespace": "ns", "name": uid, "labels": names.labels(service)},
                "status": {"podIP": address, "conditions": [{"type": "Ready", "status": "True"}]},
            }
        )


@pytest.fixture
async def judge() -> AsyncIterator[tuple[Judge, TestServer]]:
    """The small API server, whose ``/metrics`` are an engine's."""
    made = Judge()
    app = web.Application()
    app.router.add_post("/apis/{group}/v1/{kind}", made.review)
    app.router.add_get("/metrics", _engine)
    running = TestServer(app)
    await running.start_server()
    yield made, running
    await running.close()


@pytest.fixture
async def front(tmp_path: Path, judge: tuple[Judge, TestServer]) -> AsyncIterator[Front]:
    says, beside = judge
    pods = ReadyPods()
    async with aiohttp.ClientSession() as session, scraper.session() as to_pods:
        reviews = Reviews(Client(session, str(beside.make_url("/"))))
        assert beside.port is not None
        api = Api(pods, Scraper(to_pods, beside.port), reviews)
        runner = web.AppRunner(api.application(), access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        assert runner.server is not None
        listener = Listener(0, runner.server)
        made = Front(api, listener, says, pods, tmp_path)
        await made.serve()
        yield made
        listener.close()
        await runner.cleanup()


async def _engine(_: web.Request) -> web.Response:
    return web.Response(text=ENGINE)
