"""One Secret that every replica shares."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from llmservice_operator.live.client import ApiError, Client
from llmservice_operator.metrics_api.keeper import Keeper

PATH = "/api/v1/namespaces/ns/secrets/s"
NOW = datetime(2026, 6, 1, tzinfo=UTC)


class Secret:
    """As the API server keeps it: a write must name the version that it changes."""

    def __init__(self) -> None:
        self.body: dict[str, Any] | None = {"metadata": {"name": "s", "resourceVersion": "1"}}
        self.writes = 0

    async def get(self, _: web.Request) -> web.Response:
        if self.body is None:
            return web.json_response({"kind": "Status", "message": "not found"}, status=404)
        return web.json_response(self.body)

    async def put(self, request: web.Request) -> web.Response:
        given = await request.json()
        assert self.body is not None
        if given["metadata"]["resourceVersion"] != self.body["metadata"]["resourceVersion"]:
            return web.json_response({"kind": "Status", "message": "changed"}, status=409)
        self.writes += 1
        self.body = given | {"metadata": {"name": "s", "resourceVersion": str(self.writes + 1)}}
        return web.json_response(self.body)


@pytest.fixture
async def kept() -> AsyncIterator[tuple[Secret, Client]]:
    secret = Secret()
    app = web.Application()
    app.router.add_get(PATH, secret.get)
    app.router.add_put(PATH, secret.put)
    server = TestServer(app)
    await server.start_server()
    async with aiohttp.ClientSession() as session:
        yield secret, Client(session, str(server.make_url("/")))
    await server.close()


async def test_replicas_that_start_together_come_to_the_same_certificate(kept: tuple[Secret, Client]) -> None:
    secret, client = kept
    found = await asyncio.gather(*(Keeper(client, PATH, ("s.ns.svc",)).look() for _ in range(4)))
    assert len(set(found)) == 1
    assert secret.writes == 1


async def test_at_rest_nothing_is_written_and_near_its_end_it_is_renewed_once(
    kept: tuple[Secret, Client],
) -> None:
    secret, client = kept
    now = NOW
    keepers = [Keeper(client, PATH, ("s.ns.svc",), clock=lambda: now) for _ in range(2)]
    first = [await keeper.look() for keeper in keepers]
    now += timedelta(days=50)
    assert [await keeper.look() for keeper in keepers] == first
    assert secret.writes == 1
    now += timedelta(days=20)
    renewed = await asyncio.gather(*(keeper.look() for keeper in keepers))
    assert len(set(renewed)) == 1
    assert renewed[0] != first[0]
    assert renewed[0].authority == first[0].authority
    assert secret.writes == 2


async def test_an_emptied_secret_gets_back_what_is_held(kept: tuple[Secret, Client]) -> None:
    secret, client = kept
    keeper = Keeper(client, PATH, ("s.ns.svc",))
    first = await keeper.look()
    assert secret.body is not None
    secret.body.pop("data")
    assert await keeper.look() == first
    assert secret.body["data"] == first.data()


async def test_without_the_secret_it_says_so(kept: tuple[Secret, Client]) -> None:
    secret, client = kept
    secret.body = None
    with pytest.raises(ApiError, match="not found"):
        await Keeper(client, PATH, ("s.ns.svc",)).look()
