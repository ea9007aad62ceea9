"""Which optional kinds are in use, and when that changes: against a small HTTP server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from kubernetes_asyncio.client import Configuration
from llmservice_operator.live import discovery, kinds
from llmservice_operator.live.client import Client
from llmservice_operator.live.connection import Connection
from llmservice_operator.live.kinds import Kind

OF_GATEWAYS = f"/apis/{kinds.ROUTE.api_version}"


@dataclass
class Discovery:
    """An API server's answers by path: resource names, or a status. What is not here is 404."""

    answers: dict[str, tuple[str, ...] | int] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    ahead: list[int] = field(default_factory=list)  # statuses of the next answers

    def serve(self, *served: Kind) -> None:
        self.answers = {f"/apis/{kind.api_version}": (kind.plural,) for kind in served}

    async def answer(self, request: web.Request) -> web.Response:
        self.asked.append(request.path)
        found = self.ahead.pop(0) if self.ahead else self.answers.get(request.path, 404)
        if isinstance(found, int):
            return web.json_response({"message": "no"}, status=found)
        resources = [{"name": name} for plural in found for name in (plural, f"{plural}/status")]
        return web.json_response({"kind": "APIResourceList", "resources": resources})


@pytest.fixture
def server() -> Discovery:
    return Discovery()


@pytest.fixture
async def client(server: Discovery, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Client]:
    monkeypatch.setattr(discovery, "PERIOD", 0.03)
    monkeypatch.setattr(discovery, "SURE", 0.05)
    monkeypatch.setattr(discovery, "RETRY", 0.01)
    app = web.Application()
    app.router.add_get("/{rest:.*}", server.answer)
    running = TestServer(app)
    await running.start_server()
    connection = Connection(Configuration(host=str(running.make_url("")).rstrip("/")))
    async with connection.session() as session:
        yield Client(session, connection.server)
    await running.close()


async def test_kubernetes_own_kinds_are_in_use_without_a_question(server: Discovery, client: Client) -> None:
    assert await discovery.in_use(client) == kinds.REQUIRED
    assert server.asked == [f"/apis/{kind.api_version}" for kind in kinds.OPTIONAL]


@pytest.mark.parametrize("kind", kinds.OPTIONAL, ids=lambda kind: kind.kind)
async def test_an_optional_kind_is_in_use_where_it_is_served(
    server: Discovery, client: Client, kind: Kind
) -> None:
    server.serve(kind)
    assert await discovery.in_use(client) == (*kinds.REQUIRED, kind)


async def test_a_group_without_the_kind_does_not_serve_it(server: Discovery, client: Client) -> None:
    server.answers[OF_GATEWAYS] = ("gateways",)
    assert not await discovery.is_served(client, kinds.ROUTE)


async def test_an_api_server_that_does_not_answer_yet_is_asked_again(
    server: Discovery, client: Client
) -> None:
    server.serve(kinds.MONITOR)
    server.ahead = [503, 503, 500]
    assert kinds.MONITOR in await discovery.in_use(client)


async def test_a_kind_that_comes_is_told_by_name(server: Discovery, client: Client) -> None:
    known = await discovery.in_use(client)
    told = asyncio.create_task(discovery.change(client, known))
    await asyncio.sleep(0.2)
    assert not told.done()
    server.serve(kinds.MONITOR)
    assert await asyncio.wait_for(told, 2) == "podmonitors.monitoring.coreos.com/v1 is now served"


async def test_a_kind_that_goes_is_told_by_name(server: Discovery, client: Client) -> None:
    server.serve(kinds.ROUTE, kinds.SCALED_OBJECT)
    known = await discovery.in_use(client)
    server.serve(kinds.ROUTE)
    told = await asyncio.wait_for(discovery.change(client, known), 2)
    assert told == "scaledobjects.keda.sh/v1alpha1 is no longer served"


@pytest.mark.parametrize("trouble", [403, 429, 500, 503])
async def test_an_answer_that_does_not_say_is_no_change(
    server: Discovery, client: Client, trouble: int
) -> None:
    server.serve(*kinds.OPTIONAL)
    known = await discovery.in_use(client)
    server.answers = dict.fromkeys(server.answers, trouble)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(discovery.change(client, known), 0.3)


async def test_a_kind_that_is_away_for_a_moment_is_no_change(server: Discovery, client: Client) -> None:
    server.serve(*kinds.OPTIONAL)
    known = await discovery.in_use(client)
    server.ahead = [404]
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(discovery.change(client, known), 0.3)
    assert not server.ahead


async def test_why_a_watch_ended_is_told_only_where_its_kind_has_gone(
    server: Discovery, client: Client
) -> None:
    server.serve(kinds.ROUTE, kinds.MONITOR)
    known = await discovery.in_use(client)
    assert await discovery.gone(client, known) is None
    server.serve(kinds.MONITOR)
    assert await discovery.gone(client, known) == (
        "httproutes.gateway.networking.k8s.io/v1 is no longer served"
    )
