"""What is asked of free devices, and how often: against a small HTTP server."""

from __future__ import annotations

import asyncio

import aiohttp
from aiohttp import web
from aiohttp.test_utils import TestServer
from llmservice_operator.live.client import Client
from llmservice_operator.live.nodes import Nodes


async def test_those_who_ask_at_once_share_an_answer_and_the_next_one_gets_a_new_one() -> None:
    names, asked, app = ["old"], 0, web.Application()

    async def listed(request: web.Request) -> web.Response:
        nonlocal asked
        asked += 1
        items = [{"metadata": {"name": name}} for name in names] if request.path.endswith("nodes") else []
        return web.json_response({"metadata": {"resourceVersion": "1"}, "items": items})

    app.router.add_get("/api/v1/{kind}", listed)
    async with TestServer(app) as running, aiohttp.ClientSession() as session:
        seen = Nodes(Client(session, str(running.make_url("/"))))

        async def count() -> int:
            found = await seen.look()
            assert found is not None
            return len(found[0])

        assert await asyncio.gather(*(count() for _ in range(8))) == [1] * 8
        assert asked == 2, "nodes, and pods"
        names.append("added")
        assert await count() == 2
