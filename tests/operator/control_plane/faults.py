"""A reverse proxy before the API server that misbehaves when it is told to. The operator is pointed at it; the tests
themselves go past it."""

from __future__ import annotations

import asyncio
import base64
import copy
import json
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import aiohttp
from aiohttp import web

from tests.operator.control_plane.kube import Kube

HOP = frozenset(
    {"connection", "content-length", "host", "keep-alive", "transfer-encoding", "content-encoding"}
)
RETRY_AFTER = 1  # seconds, of a 429


class Fault(StrEnum):
    """What becomes of a request."""

    RESET = "its connection is cut without an answer"
    THROTTLED = "429 with Retry-After"
    CONFLICT = "409"
    BROKEN = "500"
    EXPIRED = "a watch answers that its version is too old"


@dataclass(frozen=True)
class Asked:
    """A request as far as a fault may care."""

    method: str
    path: str
    is_watch: bool

    @property
    def is_lease(self) -> bool:
        return "/leases" in self.path


Choose = Callable[[Asked], Fault | None]


class Proxy:
    """On a port of 127.0.0.1, without TLS, on a thread of its own. ``choose`` may be set at any time."""

    def __init__(self, kubernetes: Kube) -> None:
        self._server = kubernetes.server
        self._tls = ssl.create_default_context(cadata=base64.b64decode(kubernetes.ca).decode())
        self._watches: dict[int, web.Request] = {}
        self._loop = asyncio.new_event_loop()
        self.choose: Choose = healthy
        self.asked: list[Asked] = []  # every request
        self.met: list[tuple[Asked, Fault]] = []  # what the faults were done to
        threading.Thread(target=self._loop.run_forever, daemon=True, name="faults").start()
        port = asyncio.run_coroutine_threadsafe(self._serve(), self._loop).result(timeout=10)
        self.url = f"http://127.0.0.1:{port}"

    def seen_from(self, kubernetes: Kube) -> Kube:
        """For a ``Fleet``: its operators find the API server here."""
        made = copy.copy(kubernetes)
        made.server = self.url
        return made

    def cut_watches(self) -> int:
        """Cut every watch in the middle; how many there were."""
        return asyncio.run_coroutine_threadsafe(self._cut(), self._loop).result(timeout=10)

    def stop(self) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(timeout=20)
        self._loop.call_soon_threadsafe(self._loop.stop)

    # --- on the thread ---------------------------------------------------------------------------------------
    async def _serve(self) -> int:
        self._upstream = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=self._tls, limit=0))
        app = web.Application(client_max_size=2**24)
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        return int(self._runner.addresses[0][1])

    async def _cut(self) -> int:
        cut = list(self._watches.values())
        for request in cut:
            _abort(request)
        return len(cut)

    async def _close(self) -> None:
        await self._cut()
        await self._runner.cleanup()
        await self._upstream.close()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        asked = Asked(request.method, request.path, request.query.get("watch") == "true")
        self.asked.append(asked)
        fault = self.choose(asked)
        if fault is not None:
            self.met.append((asked, fault))
            return _misbehave(request, fault)
        headers = {name: value for name, value in request.headers.items() if name.lower() not in HOP}
        async with self._upstream.request(
            request.method,
            self._server + request.raw_path,
            data=await request.read() or None,
            headers=headers,
            timeout=aiohttp.ClientTimeout(total=None),
        ) as given:
            kept = {name: value for name, value in given.headers.items() if name.lower() not in HOP}
            if not asked.is_watch:
                return web.Response(status=given.status, body=await given.read(), headers=kept)
            return await self._stream(request, given, kept)

    async def _stream(
        self, request: web.Request, given: aiohttp.ClientResponse, headers: dict[str, str]
    ) -> web.StreamResponse:
        answer = web.StreamResponse(status=given.status, headers=headers)
        await answer.prepare(request)
        self._watches[id(request)] = request
        try:
            async for chunk in given.content.iter_any():
                await answer.write(chunk)
        except ConnectionError:
            pass  # the operator has ended
        finally:
            del self._watches[id(request)]
        return answer


def healthy(_: Asked) -> Fault | None:
    return None


def _misbehave(request: web.Request, fault: Fault) -> web.Response:
    if fault is Fault.RESET:
        _abort(request)
        return web.Response()
    if fault is Fault.EXPIRED:
        event = {"type": "ERROR", "object": _status(410, "Expired", "too old resource version")}
        return web.Response(text=json.dumps(event) + "\n", content_type="application/json")
    if fault is Fault.THROTTLED:
        status = _status(429, "TooManyRequests", "too many requests, please try again later")
        return web.json_response(status, status=429, headers={"Retry-After": str(RETRY_AFTER)})
    if fault is Fault.CONFLICT:
        message = "Operation cannot be fulfilled: the object has been modified; please apply your changes"
        return web.json_response(_status(409, "Conflict", message), status=409)
    return web.json_response(_status(500, "InternalError", "an error on the server"), status=500)


def _status(code: int, reason: str, message: str) -> dict[str, Any]:
    kind = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    return kind | {"code": code, "reason": reason, "message": message}


def _abort(request: web.Request) -> None:
    if isinstance(request.transport, asyncio.Transport):
        request.transport.abort()
