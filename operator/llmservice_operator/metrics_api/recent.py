"""One answer for everybody who asks within an interval, and while it is on its way."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Recent(Generic[K, V]):
    """Answers by key, each good for ``seconds`` from when it was asked for; at most ``most`` are kept."""

    def __init__(self, seconds: float, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._most = most
        self._clock = clock
        self._asked: dict[K, tuple[float, asyncio.Future[V]]] = {}  # the oldest first

    async def get(self, key: K, ask: Callable[[], Awaitable[V]]) -> V:
        """The answer of ``ask``. An exception is everybody's who waits for it, and is not kept."""
        now = self._clock()
        known = self._asked.get(key)
        if known is not None and (not known[1].done() or now - known[0] < self._seconds):
            return await asyncio.shield(known[1])
        self._asked.pop(key, None)
        self._forget(now)
        answer = asyncio.ensure_future(ask())
        self._asked[key] = (now, answer)
        answer.add_done_callback(lambda done: self._settle(key, done))
        return await asyncio.shield(answer)  # one asker that goes away takes nothing from the others

    def __len__(self) -> int:
        return len(self._asked)

    def _settle(self, key: K, done: asyncio.Future[V]) -> None:
        known = self._asked.get(key)
        failed = done.cancelled() or done.exception() is not None
        if failed and known is not None and known[1] is done:
            del self._asked[key]

    def _forget(self, now: float) -> None:
        """What is too old, and then what is too much; each look costs as much as it removes."""
        while self._asked:
            key = next(iter(self._asked))
            at, _ = self._asked[key]
            if now - at < self._seconds and len(self._asked) < self._most:
                return
            del self._asked[key]
