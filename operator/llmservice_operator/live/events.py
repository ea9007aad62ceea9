"""Kubernetes' events: read about what puzzles, and written about our own objects. Nothing depends on either."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol

from llmservice_operator.api import conditions, names
from llmservice_operator.live.client import ApiError, Client
from llmservice_operator.live.store import Body

LIMIT = 50  # events of one object; a kubelet counts up instead of writing more
KEPT = 10.0  # seconds for which an answer is good
FORGOTTEN = 600.0  # seconds after which an object that nobody asks about is forgotten
AT_ONCE = 4  # requests in flight
PATIENCE = 3.0  # seconds for one request: a reconcile waits for it
LONGEST = 1024  # characters of a message, as the API has it

SAME_AGAIN = 300.0  # seconds until the same news of the same object is written again
BURST = 10  # news of one object at once,
REFILL = 30.0  # and one more every so many seconds
_MOST_REMEMBERED = 4096  # news; the oldest are forgotten first
_FIELDS = ("type", "reason", "message", "count", "firstTimestamp", "lastTimestamp", "eventTime", "series",
           "involvedObject", "source")  # fmt: skip

logger = logging.getLogger(__name__)


class News(Protocol):
    """What is told: ``status.news`` makes it."""

    @property
    def type(self) -> str: ...  # Normal or Warning
    @property
    def reason(self) -> str: ...
    @property
    def message(self) -> str: ...


def _path(namespace: str, name: str = "") -> str:
    return f"/api/v1/namespaces/{namespace}/events" + (f"/{name}" if name else "")


# --- reading -------------------------------------------------------------------------------------------------
class EventReader:
    """Asks for the events of single objects, by their UIDs."""

    def __init__(self, client: Client, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._clock = clock
        self._answers: dict[str, tuple[float, tuple[Body, ...]]] = {}  # UID → asked at, newest last
        self._gate = asyncio.Semaphore(AT_ONCE)

    async def about(self, bodies: Iterable[Body]) -> dict[str, tuple[Body, ...]]:
        """UID → its events of every type, the newest last. Never raises: no answer is the last one, or none."""
        asked = {str(body["metadata"]["uid"]): body for body in bodies if body["metadata"].get("uid")}
        await asyncio.gather(*(self._ask(uid, body) for uid, body in asked.items() if self._is_due(uid)))
        found = {uid: self._answers[uid][1] for uid in asked}
        self._forget()
        return found

    def _is_due(self, uid: str) -> bool:
        known = self._answers.get(uid)
        return known is None or self._clock() - known[0] >= KEPT

    async def _ask(self, uid: str, body: Body) -> None:
        found = self._answers.get(uid, (0.0, ()))[1]
        query = {"fieldSelector": f"involvedObject.uid={uid}", "limit": str(LIMIT)}
        try:
            async with self._gate, asyncio.timeout(PATIENCE):
                answer = await self._client.get(_path(body["metadata"]["namespace"]), query)
            found = tuple(sorted((_reduced(item) for item in answer.get("items") or ()), key=_last_seen))
        except (ApiError, TimeoutError) as error:
            logger.debug("no events of %s: %s", body["metadata"]["name"], error or type(error).__name__)
        self._answers[uid] = (self._clock(), found)

    def _forget(self) -> None:
        now = self._clock()
        old = [uid for uid, (asked, _) in self._answers.items() if now - asked >= FORGOTTEN]
        for uid in old:
            del self._answers[uid]


def _reduced(item: Mapping[str, Any]) -> Body:
    metadata = item.get("metadata") or {}
    kept = {key: metadata[key] for key in ("name", "creationTimestamp") if key in metadata}
    return {"metadata": kept} | {key: item[key] for key in _FIELDS if item.get(key) is not None}


def _last_seen(event: Body) -> str:
    """Kubernetes' times sort as text, whole seconds and microseconds alike."""
    series = event.get("series") or {}
    times = (event.get("lastTimestamp"), series.get("lastObservedTime"), event.get("eventTime"))
    latest = max((str(text) for text in times if text), default="")
    return (latest or str(event["metadata"].get("creationTimestamp") or "")).rstrip("Z")


# --- writing -------------------------------------------------------------------------------------------------
@dataclass(slots=True)
class _Bucket:
    tokens: float
    filled_at: float


@dataclass(slots=True)
class _Told:
    at: float
    count: int = 0  # 0: not known to be there


@dataclass(slots=True)
class Recorder:
    """Writes news as events of an object: one Event for the same news, counted up, and never a flood."""

    client: Client
    clock: Callable[[], float] = time.monotonic  # for the limits
    now: Callable[[], datetime] = lambda: datetime.now(UTC)  # for the timestamps
    instance: str = field(default_factory=lambda: os.environ.get("HOSTNAME", "") or names.MANAGER)
    _told: dict[str, _Told] = field(default_factory=dict)  # by the event's name
    _buckets: dict[str, _Bucket] = field(default_factory=dict)  # by the object's UID

    async def tell(self, body: Body, news: Sequence[News]) -> None:
        """Write what may be written now; what comes too fast is dropped. Never raises but when cancelled."""
        for one in news:
            name = event_name(body, one)
            before = self._told.get(name)
            if before is not None and self.clock() - before.at < SAME_AGAIN:
                continue
            if not self._may_write(str(body["metadata"]["uid"])):
                logger.debug("too much news: dropped %s", one.reason, extra=_context(body))
                continue
            told = _Told(self.clock(), before.count if before is not None else 0)
            self._told.pop(name, None)
            self._told[name] = told  # the newest last
            try:
                async with asyncio.timeout(PATIENCE):
                    await self._write(body, one, name, told)
            except (ApiError, TimeoutError) as error:
                self._log(body, error)
        self._forget()

    async def _write(self, body: Body, news: News, name: str, told: _Told) -> None:
        """Count the event up where it is there, else create it; it may have expired, or be an earlier process's."""
        namespace = str(body["metadata"]["namespace"])
        if told.count and await self._count_up(namespace, name, told):
            return
        try:
            await self.client.create(_path(namespace), self._event(body, news, name))
            told.count = 1
        except ApiError as error:
            if error.code != 409:
                raise
            told.count = int((await self.client.get(_path(namespace, name))).get("count") or 1)
            await self._count_up(namespace, name, told)

    async def _count_up(self, namespace: str, name: str, told: _Told) -> bool:
        """False where the event is not there any more."""
        change = {"count": told.count + 1, "lastTimestamp": conditions.timestamp(self.now())}
        try:
            await self.client.merge(_path(namespace, name), change)
        except ApiError as error:
            if error.code != 404:
                raise
            return False
        told.count += 1
        return True

    def _event(self, body: Body, news: News, name: str) -> dict[str, Any]:
        metadata, when = body["metadata"], conditions.timestamp(self.now())
        about = {
            key: metadata[key] for key in ("name", "namespace", "uid", "resourceVersion") if key in metadata
        }
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": metadata["namespace"]},
            "involvedObject": {"apiVersion": names.API_VERSION, "kind": names.KIND, **about},
            "type": news.type,
            "reason": news.reason,
            "message": conditions.cut(news.message, LONGEST),
            "count": 1,
            "firstTimestamp": when,
            "lastTimestamp": when,
            "source": {"component": names.MANAGER},
            "reportingComponent": names.MANAGER,
            "reportingInstance": self.instance,
        }

    def _may_write(self, uid: str) -> bool:
        now = self.clock()
        bucket = self._buckets.setdefault(uid, _Bucket(BURST, now))
        bucket.tokens = min(BURST, bucket.tokens + (now - bucket.filled_at) / REFILL)
        bucket.filled_at = now
        if bucket.tokens < 1:
            return False
        bucket.tokens -= 1
        return True

    def _forget(self) -> None:
        while len(self._told) > _MOST_REMEMBERED:
            del self._told[next(iter(self._told))]
        full = BURST * REFILL  # seconds after which a bucket is as new
        for uid in [uid for uid, one in self._buckets.items() if self.clock() - one.filled_at >= full]:
            del self._buckets[uid]

    def _log(self, body: Body, error: ApiError | TimeoutError) -> None:
        going = isinstance(error, ApiError) and (error.namespace_is_going or error.code in (404, 409))
        level = logging.DEBUG if going else logging.INFO
        logger.log(level, "no event: %s", error or type(error).__name__, extra=_context(body))


def _context(service: Body) -> dict[str, Any]:
    metadata = service["metadata"]
    return {"object": f"{metadata['namespace']}/{metadata['name']}", "generation": metadata.get("generation")}


def event_name(body: Body, news: News) -> str:
    """The same for the same news of the very same object."""
    identity = "\n".join((str(body["metadata"]["uid"]), news.type, news.reason, news.message))
    readable = str(body["metadata"]["name"])[:200].rstrip(".-")
    return f"{readable}.{hashlib.sha256(identity.encode()).hexdigest()[:16]}"
