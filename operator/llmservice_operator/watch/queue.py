"""Which objects are to be reconciled, and when.

A key waits at most once; no two workers ever hold the same one; a key that is added while a worker has it is
handed out again afterwards. :class:`Schedule` decides (pure, its clock is an argument), :class:`Queue` waits.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Generic, TypeVar

K = TypeVar("K")

BACKOFF_FIRST = 1.0  # seconds
BACKOFF_LONGEST = 300.0


class Urgency(IntEnum):
    """Lower goes first. A status never waits behind a pile of new objects."""

    NOW = 0  # edits, children's events, retries
    BULK = 1  # objects seen for the first time, relists


@dataclass(frozen=True, slots=True)
class _Due:
    at: float
    urgency: Urgency


class Schedule(Generic[K]):
    """The queue without waiting: times come in as arguments, in seconds, and never go backward."""

    def __init__(self, jitter: Callable[[], float] = random.random) -> None:
        self._due: dict[K, _Due] = {}  # what each waiting key waits for: the truth
        self._delayed: list[tuple[float, int, K]] = []  # heap; entries that no longer match _due are skipped
        self._ready: list[tuple[Urgency, float, int, K]] = []  # heap; the same
        self._running: set[K] = set()
        self._again: dict[K, tuple[float, Urgency]] = {}  # added while running
        self._failures: dict[K, int] = {}
        self._order = itertools.count()
        self._jitter = jitter

    def add(self, key: K, now: float, after: float = 0.0, urgency: Urgency = Urgency.NOW) -> None:
        """Have ``key`` handed out ``after`` seconds from now, or sooner if it waits for sooner already."""
        at = now + max(after, 0.0)
        if key in self._running:
            before = self._again.get(key)
            self._again[key] = (
                (at, urgency) if before is None else (min(at, before[0]), min(urgency, before[1]))
            )
            return
        before_due = self._due.get(key)
        if before_due is not None:
            if before_due.at <= at and before_due.urgency <= urgency:
                return
            at, urgency = min(at, before_due.at), min(urgency, before_due.urgency)
        self._due[key] = _Due(at, urgency)
        if at > now:
            heapq.heappush(self._delayed, (at, next(self._order), key))
        else:
            heapq.heappush(self._ready, (urgency, at, next(self._order), key))

    def take(self, now: float) -> K | None:
        """The next key, which is then the caller's until :meth:`done`; None where none is due."""
        self._ripen(now)
        while self._ready:
            urgency, at, _, key = heapq.heappop(self._ready)
            if self._waits_for(key, at, urgency):
                del self._due[key]
                self._running.add(key)
                return key
        return None

    def done(self, key: K, now: float) -> None:
        """The caller is through with ``key`` and it went well (or will not go better): back-off starts afresh."""
        self._failures.pop(key, None)
        self._release(key, now)

    def retry(self, key: K, now: float) -> float:
        """The caller failed: ``key`` comes back after a delay that doubles each time. Returns the delay.

        What was added meanwhile (the object changed) is not held up.
        """
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        delay = min(BACKOFF_FIRST * 2.0 ** min(failures, 32), BACKOFF_LONGEST) * (1 + 0.1 * self._jitter())
        self._release(key, now)
        self.add(key, now, delay)
        return delay

    def next_due(self, now: float) -> float | None:
        """Seconds until :meth:`take` has something; 0 for now, None for never as things stand."""
        self._ripen(now)
        while self._ready and not self._waits_for(self._ready[0][3], self._ready[0][1], self._ready[0][0]):
            heapq.heappop(self._ready)
        if self._ready:
            return 0.0
        while self._delayed and not self._waits_until(self._delayed[0][2], self._delayed[0][0]):
            heapq.heappop(self._delayed)
        return self._delayed[0][0] - now if self._delayed else None

    def depth(self, now: float) -> int:
        """Keys that wait for a worker now."""
        return sum(due.at <= now for due in self._due.values())

    def age(self, now: float) -> float:
        """Seconds for which the oldest of them has waited."""
        return max((now - due.at for due in self._due.values() if due.at <= now), default=0.0)

    def _release(self, key: K, now: float) -> None:
        self._running.discard(key)
        again = self._again.pop(key, None)
        if again is not None:
            at, urgency = again
            self.add(key, now, at - now, urgency)

    def _ripen(self, now: float) -> None:
        while self._delayed and self._delayed[0][0] <= now:
            at, _, key = heapq.heappop(self._delayed)
            if self._waits_until(key, at):
                heapq.heappush(self._ready, (self._due[key].urgency, at, next(self._order), key))

    def _waits_until(self, key: K, at: float) -> bool:
        due = self._due.get(key)
        return due is not None and due.at == at

    def _waits_for(self, key: K, at: float, urgency: Urgency) -> bool:
        due = self._due.get(key)
        return due is not None and due.at == at and due.urgency == urgency


class Queue(Generic[K]):
    """A :class:`Schedule` on the event loop's clock, for any number of workers."""

    def __init__(self) -> None:
        self._schedule: Schedule[K] = Schedule()
        self._changed = asyncio.Event()

    def add(self, key: K, after: float = 0.0, urgency: Urgency = Urgency.NOW) -> None:
        self._schedule.add(key, self._now(), after, urgency)
        self._changed.set()

    async def take(self) -> K:
        """Wait for a key that is due."""
        while True:
            key = self._schedule.take(self._now())
            if key is not None:
                return key
            self._changed.clear()
            delay = self._schedule.next_due(self._now())
            try:
                async with asyncio.timeout(delay):
                    await self._changed.wait()
            except TimeoutError:
                pass

    def done(self, key: K, after: float | None = None) -> None:
        """Finished; with ``after``, to be handed out once more by then."""
        self._schedule.done(key, self._now())
        if after is not None:
            self._schedule.add(key, self._now(), after)
        self._changed.set()

    def retry(self, key: K) -> float:
        delay = self._schedule.retry(key, self._now())
        self._changed.set()
        return delay

    def depth(self) -> int:
        return self._schedule.depth(self._now())

    def age(self) -> float:
        return self._schedule.age(self._now())

    def _now(self) -> float:
        return asyncio.get_running_loop().time()
