"""A list and a watch of one collection, for as long as the process lives.

Not kopf, which the operator watches with: kopf takes a thread, an event loop and its own rules of ending for what is
here two collections, read and never written, where an event that comes twice does no harm. A watch that ends is
taken up where it ended, or begins with a new list where the server has forgotten; so nothing is lost for good.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Protocol

import aiohttp

from llmservice_operator.live.client import ApiError, Client

PAGE = "500"  # objects a list request
WATCH_SECONDS = 120  # after which the API server ends a watch, so that each proves that it lives
SILENCE = 2.5 * WATCH_SECONDS  # seconds without an answer after which a watch counts as dead
RETRY = 2.0
LONGEST_LINE = 16 * 2**20  # bytes; an object of etcd's has 1.5 MB at most

Body = Mapping[str, Any]

logger = logging.getLogger(__name__)


class Hearer(Protocol):
    """Who is told."""

    def replace(self, bodies: list[Body]) -> None:
        """These are all there are."""

    def put(self, body: Body) -> None: ...

    def drop(self, body: Body) -> None: ...


class _Expired(Exception):
    """The server does not know this version any more."""


class Follower:
    """Tells ``hearer`` what a collection holds and how it changes."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        server: str,
        path: str,
        selection: Mapping[str, str],
        hearer: Hearer,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._session = session
        self._client = Client(session, server)
        self._url = server.rstrip("/") + path
        self._path = path
        self._selection = dict(selection)
        self._hearer = hearer
        self._clock = clock
        self._heard = clock()
        self.listed = False  # everything there was has been told once

    def silence(self) -> float:
        """Seconds since the server was last heard of."""
        return self._clock() - self._heard

    async def forever(self) -> None:
        while True:
            try:
                await self._list_and_watch()
            except _Expired:
                logger.info("%s is listed anew", self._path)
            except ApiError as error:
                logger.warning("cannot follow %s yet: %s", self._path, error.message)
            except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
                logger.info("the watch of %s broke: %s", self._path, error or type(error).__name__)
            await asyncio.sleep(RETRY)

    async def _list_and_watch(self) -> None:
        version = await self._list()
        while True:
            begun = self._clock()
            version = await self._watch(version)
            # A server or proxy that ends each watch at once is not asked without a pause.
            await asyncio.sleep(max(0.0, 1.0 - (self._clock() - begun)))

    async def _list(self) -> str:
        query = {**self._selection, "limit": PAGE}
        bodies: list[Body] = []
        while True:
            answer = await self._client.get(self._path, query)
            bodies.extend(answer.get("items") or ())
            metadata = answer.get("metadata") or {}
            if not metadata.get("continue"):
                break
            query["continue"] = metadata["continue"]
        self._hearer.replace(bodies)
        self.listed = True
        self._heard = self._clock()
        return str(metadata.get("resourceVersion", ""))

    async def _watch(self, version: str) -> str:
        """Tell what changes until the server ends the watch; the version to go on from.

        Raises:
            _Expired: there is no going on from ``version``.
        """
        query = self._selection | {
            "watch": "true",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(WATCH_SECONDS),
        }
        limit = aiohttp.ClientTimeout(total=None, sock_connect=5, sock_read=WATCH_SECONDS + 15)
        async with self._session.get(self._url, params=query, timeout=limit) as answer:
            if answer.status == 410:
                raise _Expired
            if answer.status != 200:
                raise ApiError(answer.status, answer.reason or "", (await answer.text())[:500])
            self._heard = self._clock()
            async for line in _lines(answer.content):
                self._heard = self._clock()
                version = self._tell(json.loads(line)) or version
        return version

    def _tell(self, event: Mapping[str, Any]) -> str:
        kind, body = event["type"], event["object"]
        if kind == "ERROR":
            if body.get("code") == 410:
                raise _Expired
            raise ApiError(body.get("code"), str(body.get("reason")), str(body.get("message")))
        if kind == "DELETED":
            self._hearer.drop(body)
        elif kind != "BOOKMARK":
            self._hearer.put(body)
        return str(body["metadata"].get("resourceVersion", ""))


async def _lines(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Lines of any length; aiohttp's own end at 128 KiB, and a pod may be longer."""
    rest = b""
    async for chunk in content.iter_any():
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            if line.strip():
                yield line
        if len(rest) > LONGEST_LINE:
            raise ValueError("a line of a watch is too long")
