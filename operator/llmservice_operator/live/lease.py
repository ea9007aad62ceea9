"""Who leads: a ``coordination.k8s.io`` Lease.

The client library's elector is not used: it never releases the lease, stamps local time as UTC, judges by the wall
clock, and neither bounds a hanging request by its deadline nor survives a connection error.

At most one leader at a time: a leader that could not renew for ``DEADLINE`` gives up, a follower waits until it has
seen nothing change for the whole duration, by its own monotonic clock.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from llmservice_operator.live.client import ApiError, Client

DURATION = 10  # seconds a lease is good for after it was last renewed
DEADLINE = 7.0  # seconds without a renewal after which a leader stops leading
RENEW = 3.0
RETRY = 1.0  # seconds between two looks of a follower

logger = logging.getLogger(__name__)


class Lost(Exception):
    """We do not lead any more."""


class Lease:
    """One candidate for one lease."""

    def __init__(
        self,
        client: Client,
        namespace: str,
        name: str,
        identity: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._collection = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._name = name
        self._identity = identity
        self._clock = clock
        self._mine: dict[str, Any] | None = None  # as last written
        self._renewed = 0.0
        self._observed: tuple[Any, ...] = ()
        self._observed_at = 0.0

    async def acquire(self) -> None:
        """Wait until we lead."""
        while True:
            if await self._held():
                return
            await asyncio.sleep(RETRY * random.uniform(0.9, 1.1))

    async def hold(self) -> None:
        """Keep leading for ever.

        Raises:
            Lost: the lease is somebody else's, or could not be renewed in time.
        """
        while True:
            await asyncio.sleep(RENEW)
            await self._renew()

    async def release(self) -> None:
        """Let the next one lead at once. Does nothing where we do not lead."""
        if self._mine is None:
            return
        spec = self._mine["spec"] | {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": _now()}
        lease, self._mine = self._mine, None
        try:
            await self._client.replace(self._path, lease | {"spec": spec})
        except ApiError as error:
            logger.warning("lease not released: %s", error.message)

    @property
    def _path(self) -> str:
        return f"{self._collection}/{self._name}"

    async def _held(self) -> bool:
        asked = self._clock()
        try:
            self._mine = await self._try()
        except ApiError as error:
            level = logging.DEBUG if error.code == 409 else logging.WARNING
            logger.log(level, "lease not acquired: %s", error.message)
            return False
        self._renewed = asked
        return self._mine is not None

    async def _try(self) -> dict[str, Any] | None:
        try:
            lease = await self._client.get(self._path)
        except ApiError as error:
            if error.code != 404:
                raise
            lease = {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": self._name},
            }
            return await self._client.create(self._collection, lease | {"spec": self._claim({})})
        spec = lease.get("spec") or {}
        if not self.may_take(spec):
            return None
        return await self._client.replace(self._path, lease | {"spec": self._claim(spec)})

    def may_take(self, spec: dict[str, Any]) -> bool:
        """Is the lease free, ours (the container restarted), or long not renewed?"""
        now, seen = (
            self._clock(),
            (spec.get("holderIdentity"), spec.get("renewTime"), spec.get("leaseTransitions")),
        )
        if seen != self._observed:
            self._observed, self._observed_at = seen, now
        holder = spec.get("holderIdentity")
        expired = now - self._observed_at >= float(spec.get("leaseDurationSeconds") or DURATION)
        return not holder or holder == self._identity or expired

    def _claim(self, spec: dict[str, Any]) -> dict[str, Any]:
        transitions = int(spec.get("leaseTransitions") or 0) + (spec.get("holderIdentity") != self._identity)
        return {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": DURATION,
            "acquireTime": _now(),
            "renewTime": _now(),
            "leaseTransitions": transitions,
        }

    async def _renew(self) -> None:
        while True:
            assert self._mine is not None, "hold() follows acquire()"
            asked = self._clock()
            left = self._renewed + DEADLINE - asked
            if left <= 0:
                raise Lost(f"the lease could not be renewed for {DEADLINE:g} s")
            try:
                async with asyncio.timeout(left):
                    spec = self._mine["spec"] | {"renewTime": _now()}
                    self._mine = await self._client.replace(self._path, self._mine | {"spec": spec})
                self._renewed = asked
                return
            except TimeoutError:
                continue
            except ApiError as error:
                logger.warning("lease not renewed: %s", error.message)
                if error.code == 409:
                    await self._look_again()
                await asyncio.sleep(0.5)

    async def _look_again(self) -> None:
        """Somebody wrote the lease: a person's annotation, or another leader?"""
        try:
            lease = await self._client.get(self._path)
        except ApiError as error:
            logger.warning("lease not read: %s", error.message)
            return
        holder = (lease.get("spec") or {}).get("holderIdentity")
        if holder != self._identity:
            self._mine = None
            raise Lost(f'the lease is held by "{holder}"')
        self._mine = lease


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
