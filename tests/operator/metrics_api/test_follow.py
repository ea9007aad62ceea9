"""A list and a watch that outlive their server's whims."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from llmservice_operator.metrics_api import follow
from llmservice_operator.metrics_api.follow import Follower


class Known:
    """What has been told."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.replaced = 0

    def replace(self, bodies: list[Mapping[str, Any]]) -> None:
        self.replaced += 1
        self.names = {body["metadata"]["name"] for body in bodies}

    def put(self, body: Mapping[str, Any]) -> None:
        self.names.add(body["metadata"]["name"])

    def drop(self, body: Mapping[str, Any]) -> None:
        self.names.discard(body["metadata"]["name"])


class Collection:
    """A collection as the API server serves it: a list in pages, and watches that the test feeds."""

    def __init__(self) -> None:
        self.names = ["a", "b", "c"]
        self.events: asyncio.Queue[bytes | None] = asyncio.Queue()  # None: the watch ends
        self.asked: list[dict[str, str]] = []
        self.gone = False

    async def get(self, request: web.Request) -> web.StreamResponse:
        query = dict(request.query)
        self.asked.append(query)
        if query.get("watch") != "true":
            start = int(query.get("continue", 0))
            items = [thing(name) for name in self.names[start : start + 2]]
            more = str(start + 2) if start + 2 < len(self.names) else ""
            return web.json_response({"items": items, "metadata": {"resourceVersion": "7", "continue": more}})
        if self.gone:
            self.gone = False
            return web.json_response({"kind": "Status", "code": 410}, status=410)
        answer = web.StreamResponse()
        await answer.prepare(request)
        while (line := await self.events.get()) is not None:
            await answer.write(line)
        return answer

    def tell(self, kind: str, body: dict[str, Any]) -> None:
        self.events.put_nowait(json.dumps({"type": kind, "object": body}).encode() + b"\n")

    def watches(self) -> list[str]:
        return [query["resourceVersion"] for query in self.asked if query.get("watch") == "true"]


def thing(name: str, version: str = "9", **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "resourceVersion": version}} | more


@pytest.fixture
async def served(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Collection, Known, Follower]]:
    monkeypatch.setattr(follow, "RETRY", 0.01)
    collection, known = Collection(), Known()
    app = web.Application()
    app.router.add_get("/api/v1/pods", collection.get)
    server = TestServer(app)
    await server.start_server()
    async with aiohttp.ClientSession() as session:
        follower = Follower(
            session, str(server.make_url("/")), "/api/v1/pods", {"labelSelector": "a=b"}, known
        )
        task = asyncio.create_task(follower.forever())
        yield collection, known, follower
        task.cancel()
    collection.events.put_nowait(None)
    await server.close()


async def so(look: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not look():  # noqa: ASYNC110 (what is looked at knows of no event)
            await asyncio.sleep(0.005)


async def test_everything_is_listed_page_by_page_and_then_watched_from_there(
    served: tuple[Collection, Known, Follower],
) -> None:
    collection, known, follower = served
    await so(lambda: bool(collection.watches()))
    assert known.names == {"a", "b", "c"}
    assert follower.listed
    assert all(query["labelSelector"] == "a=b" for query in collection.asked)
    assert collection.watches() == ["7"]
    collection.tell("ADDED", thing("d"))
    collection.tell("DELETED", thing("a"))
    await so(lambda: known.names == {"b", "c", "d"})


async def test_an_object_longer_than_any_buffer_is_read(served: tuple[Collection, Known, Follower]) -> None:
    collection, known, _ = served
    collection.tell("ADDED", thing("long", text="x" * 1_500_000))
    await so(lambda: "long" in known.names)


async def test_a_watch_that_ends_is_taken_up_where_it_ended(
    served: tuple[Collection, Known, Follower],
) -> None:
    collection, known, _ = served
    collection.tell("BOOKMARK", {"metadata": {"resourceVersion": "42"}})
    collection.events.put_nowait(None)
    await so(lambda: collection.watches() == ["7", "42"])
    assert known.replaced == 1


@pytest.mark.parametrize("how", ["status", "event", "garbage"])
async def test_where_the_server_has_forgotten_everything_is_listed_anew(
    served: tuple[Collection, Known, Follower], how: str
) -> None:
    collection, known, _ = served
    await so(lambda: known.replaced == 1)
    collection.names = ["z"]
    if how == "event":
        collection.tell("ERROR", {"kind": "Status", "code": 410, "metadata": {}})
    elif how == "garbage":
        collection.events.put_nowait(b"{\n")
    else:
        collection.gone = True
        collection.events.put_nowait(None)
    await so(lambda: known.names == {"z"})


async def test_silence_is_counted_from_the_last_sign_of_life(
    served: tuple[Collection, Known, Follower],
) -> None:
    collection, _, follower = served
    await so(lambda: bool(collection.watches()))
    await asyncio.sleep(0.3)
    assert 0.2 < follower.silence() < 5
    collection.tell("BOOKMARK", {"metadata": {"resourceVersion": "8"}})
    await so(lambda: follower.silence() < 0.2)
