"""Whether this is the last replica's end."""

from __future__ import annotations

from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from llmservice_operator.live.client import Client
from llmservice_operator.metrics_api import departure
from llmservice_operator.metrics_api.departure import OwnNamespace

STANDS = {"metadata": {"name": "d"}, "spec": {"replicas": 2}}


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    """Each Deployment is named after what becomes of it."""

    async def get(request: web.Request) -> web.Response:
        name = request.match_info["name"]
        if name.isdigit():
            return web.json_response({"kind": "Status", "message": name}, status=int(name))
        changes = {
            "stands": {},
            "deleted": {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}},
            "empty": {"spec": {"replicas": 0}},
        }
        return web.json_response(STANDS | changes[name])

    app = web.Application()
    app.router.add_get("/apis/apps/v1/namespaces/ns/deployments/{name}", get)
    server = TestServer(app)
    await server.start_server()
    async with aiohttp.ClientSession() as session:
        yield Client(session, str(server.make_url("/")))
    await server.close()


@pytest.mark.parametrize(
    ("deployment", "final"),
    [
        ("stands", False),  # a rollout, an eviction
        ("deleted", True),
        ("empty", True),
        ("404", True),
        ("403", True),  # our rights have gone first
        ("401", True),
        ("500", False),
    ],
)
async def test_it_is_final_where_no_other_replica_comes(client: Client, deployment: str, final: bool) -> None:
    assert await departure.is_final(client, "ns", deployment) is final


def test_the_namespace_goes_from_its_deletion_on() -> None:
    own = OwnNamespace("ns")
    own.replace([{"metadata": {"name": "ns"}}])
    assert not own.going.is_set()
    own.put({"metadata": {"name": "ns", "deletionTimestamp": "2026-01-01T00:00:00Z"}})
    assert own.going.is_set()
