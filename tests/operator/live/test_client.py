"""What an answer means, and how requests are authorised: against a small HTTP server."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from kubernetes_asyncio.client import Configuration
from kubernetes_asyncio.config.incluster_config import InClusterConfigLoader
from llmservice_operator.live.client import ApiError, Client
from llmservice_operator.live.connection import Connection, NoCluster, Watches


@pytest.fixture
async def server() -> AsyncIterator[TestServer]:
    """Answers ``/status/CODE`` with a Status of that code, everything else with what it was asked."""

    async def status(request: web.Request) -> web.Response:
        code = int(request.match_info["code"])
        causes = [{"reason": "NamespaceTerminating"}] if "terminating" in request.query else []
        body = {
            "kind": "Status",
            "reason": "R",
            "message": request.query.get("m", "no"),
            "details": {"causes": causes},
        }
        headers = {"Retry-After": request.query["wait"]} if "wait" in request.query else {}
        return web.json_response(body, status=code, headers=headers)

    async def echo(request: web.Request) -> web.Response:
        return web.json_response(
            {"authorization": request.headers.get("Authorization"), "q": dict(request.query)}
        )

    app = web.Application()
    app.router.add_get("/status/{code}", status)
    app.router.add_get("/{rest:.*}", echo)
    running = TestServer(app)
    await running.start_server()
    yield running
    await running.close()


@pytest.mark.parametrize(
    ("path", "later"),
    [
        ("/status/400", False),
        ("/status/403?m=exceeded quota", False),
        ('/status/403?m=pods is forbidden: User "me" cannot list resource', True),
        ("/status/404", False),
        ("/status/409", True),
        ("/status/422", False),
        ("/status/429", True),
        ("/status/500", True),
        ("/status/503", True),
    ],
)
async def test_a_refusal_says_whether_the_same_request_may_succeed_later(
    server: TestServer, path: str, later: bool
) -> None:
    connection = Connection(Configuration(host=str(server.make_url("")).rstrip("/")))
    async with connection.session() as session:
        with pytest.raises(ApiError) as caught:
            await Client(session, connection.server).get(path)
    assert caught.value.may_succeed_later is later
    assert caught.value.code == int(path[8:11])


async def test_a_namespace_that_is_going_is_told_apart(server: TestServer) -> None:
    connection = Connection(Configuration(host=str(server.make_url("")).rstrip("/")))
    async with connection.session() as session:
        client = Client(session, connection.server)
        with pytest.raises(ApiError) as caught:
            await client.get("/status/403?terminating=1")
    assert caught.value.namespace_is_going


async def test_no_answer_may_be_one_later() -> None:
    connection = Connection(Configuration(host="http://127.0.0.1:1"))
    async with connection.session() as session:
        with pytest.raises(ApiError) as caught:
            await Client(session, connection.server).get("/version")
    assert caught.value.code is None
    assert caught.value.may_succeed_later


async def test_a_rotated_token_is_used_without_a_restart(server: TestServer, tmp_path: Path) -> None:
    token, certificate = tmp_path / "token", tmp_path / "ca.crt"
    token.write_text("first")
    certificate.write_text("not empty")
    where = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": "1"}
    loader = InClusterConfigLoader(str(token), str(certificate), environ=where)
    configuration = Configuration()
    loader.load_and_set(configuration)
    configuration.ssl_ca_cert = None
    connection = Connection(configuration)
    connection.server = str(server.make_url("")).rstrip("/")
    async with connection.session() as session:
        client = Client(session, connection.server)
        assert (await client.get("/x"))["authorization"].lower() == "bearer first"
        token.write_text("second")
        loader.token_expires_at = datetime.now() - timedelta(seconds=1)
        configuration.ssl_ca_cert = None
        assert (await client.get("/x"))["authorization"].lower() == "bearer second"


async def test_a_watch_that_was_answered_is_heard_of(server: TestServer) -> None:
    connection = Connection(Configuration(host=str(server.make_url("")).rstrip("/")))
    async with connection.session() as session:
        await Client(session, connection.server).get("/api/v1/pods", {"watch": "true"})
        await Client(session, connection.server).get("/api/v1/services")
    assert set(connection.watches.answered) == {"/api/v1/pods"}


def test_a_watch_that_never_began_counts_from_the_start() -> None:
    now = 1000.0
    watches = Watches(clock=lambda: now)
    watches.mark("/api/v1/pods")
    now = 1300.0
    watches.mark("/api/v1/services")
    assert watches.quietest(expected=2, since=900.0) == 300.0
    assert watches.quietest(expected=3, since=900.0) == 400.0


async def test_without_a_cluster_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(NoCluster):
        await Connection.load(tmp_path / "none")


async def test_after_a_retry_after_nothing_but_a_lease_is_asked_for_before(server: TestServer) -> None:
    connection = Connection(Configuration(host=str(server.make_url("")).rstrip("/")))
    async with connection.session() as session:
        client = Client(session, connection.server)
        with pytest.raises(ApiError):
            await client.get("/status/429", {"wait": "1"})
        throttled = time.monotonic()
        await client.get("/apis/coordination.k8s.io/v1/namespaces/a/leases/b")
        lease = time.monotonic() - throttled
        await client.get("/api/v1/pods")
        other = time.monotonic() - throttled
    assert other >= 0.9 > lease
