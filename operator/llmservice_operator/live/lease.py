"""Who leads: a ``coordination.k8s.io`` Lease.

The client library's elector is not used: it never releases the lease, stamps local time as UTC, judges by the wall
clock, and neither bounds a hanging request by its deadline nor survives a connection error.

At most one leader at a time: a leader that could not renew for ``DEADLINE`` gives up, a follower waits until it has
seen nothing change for the whole duration, by its own monotonic clock.

A cluster-wide install holds two: its own, which elects one of its replicas, and then that of the cluster, in the
install's name, which elects one of several installs. Always in this order, so no two can wait for each other.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from llmservice_operator.api import names
from llmservice_operator.live.client import ApiError, Client

DURATION = 10  # seconds a lease is good for after it was last renewed
DEADLINE = 7.0  # seconds without a renewal after which a leader stops leading
RENEW = 3.0
RETRY = 1.0  # seconds between two looks of a follower
CLUSTER_DURATION = 2 * DURATION  # seconds: a dead leader's other replica is there before another install is
CLUSTER_HANDOVER = 3.0  # seconds after a release, the same: a rollout of one install is no turn of the other

logger = logging.getLogger(__name__)


class Lost(Exception):
    """We do not lead any more."""


@dataclass(frozen=True, slots=True)
class Rival:
    """Who holds a lease that we wait for."""

    identity: str
    since: str  # as it says itself

    def __str__(self) -> str:
        return f'"{self.identity}" since {self.since}'


class Lease:
    """One candidate for one lease.

    ``duration`` is how long it is good for, ``handover`` for how long it is left, once it was released, to those who
    did not see it held; both in seconds. ``waits`` is told of each rival once.
    """

    def __init__(
        self,
        client: Client,
        namespace: str,
        name: str,
        identity: str,
        clock: Callable[[], float] = time.monotonic,
        *,
        duration: int = DURATION,
        handover: float = 0.0,
        waits: Callable[[Rival], None] = lambda _: None,
    ) -> None:
        self._client = client
        self._collection = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._name = name
        self._identity = identity
        self._clock = clock
        self._duration = duration
        self._handover = handover
        self._waits = waits
        self.rival: Rival | None = None  # the last one that was seen to hold it, until we do
        self._complaint = ""  # the last one that was logged
        self._mine: dict[str, Any] | None = None  # as last written
        self._renewed = 0.0
        self._observed: tuple[Any, ...] = ()
        self._observed_at = 0.0

    async def acquire(self) -> None:
        """Wait until we lead."""
        while True:
            if await self._held():
                self.rival = None
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
            again = error.code == 409 or error.message == self._complaint
            level = logging.DEBUG if again else logging.WARNING
            logger.log(level, "lease %s not acquired: %s", self._path, error.message)
            self._complaint = error.message
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
            self._wait_for(spec)
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
        holder, unchanged = spec.get("holderIdentity"), now - self._observed_at
        if not holder:
            return self.rival is None or unchanged >= self._handover
        expired = unchanged >= float(spec.get("leaseDurationSeconds") or DURATION)
        return bool(holder == self._identity or expired)

    def _wait_for(self, spec: dict[str, Any]) -> None:
        holder = spec.get("holderIdentity")
        if not holder or (self.rival is not None and self.rival.identity == holder):
            return
        self.rival = Rival(str(holder), str(spec.get("acquireTime")))
        self._waits(self.rival)

    def _claim(self, spec: dict[str, Any]) -> dict[str, Any]:
        stays = spec.get("holderIdentity") == self._identity
        return {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": self._duration,
            "acquireTime": (spec.get("acquireTime") if stays else None) or _now(),
            "renewTime": _now(),
            "leaseTransitions": int(spec.get("leaseTransitions") or 0) + (not stays),
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


def cluster_wide(client: Client, namespace: str, install: str, waits: Callable[[Rival], None]) -> Lease:
    """The lease that elects one of several cluster-wide installs; ``install`` is the same for all its replicas."""
    return Lease(
        client,
        namespace,
        names.CLUSTER_LEASE,
        install,
        duration=CLUSTER_DURATION,
        handover=CLUSTER_HANDOVER,
        waits=waits,
    )


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
