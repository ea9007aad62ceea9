"""One idempotent reconcile for every cause: creation, edit, restart, relist, a child's event, a timer."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from prometheus_client import Counter, Histogram

from llmservice_operator import status
from llmservice_operator.api import spec
from llmservice_operator.api.cache_key import CacheKey, claim_of
from llmservice_operator.api.defaults import Defaults
from llmservice_operator.api.errors import InvalidSpec
from llmservice_operator.api.seen import Action, Applied, AppliedChild, Seen
from llmservice_operator.api.spec import LLMService
from llmservice_operator.desired import copying, lookup, plan, render, rollout
from llmservice_operator.inquiry import Inquiry
from llmservice_operator.live import kinds, observe
from llmservice_operator.live.client import ApiError
from llmservice_operator.live.cluster import REFUSAL_STANDS, Behind, Cluster, Ending, Superseded
from llmservice_operator.live.events import Recorder
from llmservice_operator.live.store import Body, Key, Store
from llmservice_operator.status import news

SETTLE = 0.25  # seconds in which Kubernetes' own controllers answer a child's write

DURATION = Histogram(
    "llmservice_operator_reconcile_seconds",
    "Duration of one reconcile",
    ["outcome"],
    buckets=(0.001, 0.005, 0.02, 0.1, 0.5, 2, 10),
)
PANICS = Counter(
    "llmservice_operator_reconcile_panics_total", "Reconciles that ended in an unexpected exception"
)

logger = logging.getLogger(__name__)


class Next(StrEnum):
    """What the queue does with the object now."""

    DONE = "done"  # nothing until something happens
    LATER = "later"  # once more, after a given time; it was no failure
    RETRY = "retry"  # once more, with back-off


@dataclass(frozen=True, slots=True)
class Outcome:
    next: Next
    after: float = 0.0  # seconds, for LATER
    wake: tuple[Key | CacheKey, ...] = ()  # others that have something to do or to say now


@dataclass(frozen=True, slots=True)
class Reconciled:
    status: Mapping[str, Any]
    applied: Applied
    due_in: float | None  # seconds until it should be looked at again, where time alone changes something


@dataclass(frozen=True, slots=True)
class Controller:
    """Where reconciles read, what they write to, and the cluster-wide defaults."""

    store: Store
    cluster: Cluster
    defaults: Defaults
    inquiry: Inquiry
    recorder: Recorder
    namespace: str  # the operator's own
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    refused: dict[CacheKey, tuple[AppliedChild, ...]] = field(default_factory=dict)  # of each cache

    async def reconcile(self, body: Body) -> Reconciled:
        now = self.clock()
        wanted = spec.parse(body)  # pure
        seen = self._observe(wanted)  # no request
        planned = plan.for_spec(wanted, seen, now)  # pure
        if rollout.begins(wanted, planned, seen):
            free = await self.inquiry.free(wanted, seen)
            seen = replace(seen, free=free, free_is_hidden=free is None)
            planned = plan.for_spec(wanted, seen, now)
        rendered = render.render(wanted, planned, seen, self.defaults, self.namespace)  # pure
        applied = await self.cluster.apply(wanted, rendered.children, rendered.unwanted)
        told, again_in = await self.inquiry.complete(wanted, planned, seen, now)
        said = status.judge(wanted, planned, told, applied, now)  # pure
        return Reconciled(said, applied, _soonest(rendered.due_in, again_in))

    async def reconcile_cache(self, key: CacheKey) -> Reconciled:
        """The claim and the jobs of a cache, from every service that uses it. Those say what became of it."""
        now, seen = self.clock(), observe.cache(self.store, key)
        bodies = [
            body
            for service in self.store.users(key.namespace, key.claim)
            if (body := self.store.get(kinds.LLMSERVICE, *service)) is not None
            and "deletionTimestamp" not in body["metadata"]
        ]
        users = tuple(self._users(bodies, now))
        rendered = render.render_cache(copying.render(key, users, bodies, seen, self.defaults, now))
        applied = await self.cluster.apply(key, rendered.children, rendered.unwanted)
        return Reconciled({}, applied, rendered.due_in)

    def _users(self, bodies: Iterable[Body], now: datetime) -> Iterator[copying.User]:
        for body in bodies:
            try:
                wanted = spec.parse(body)
            except InvalidSpec:
                continue  # its own reconcile says so; what it has copied stays on the claim
            yield copying.User(wanted, lookup.facts(wanted, observe.observe(self.store, wanted), now))

    def _observe(self, wanted: LLMService) -> Seen:
        seen = observe.observe(self.store, wanted)
        refused = self.refused.get(CacheKey(wanted.namespace, wanted.claim_name or ""), ())
        return replace(seen, cache=replace(seen.cache, refused=refused)) if refused else seen

    async def handle(self, key: Key | CacheKey) -> Outcome:
        """Reconcile what ``key`` names and say what comes next. Never raises: one bad object hurts no other."""
        started = time.perf_counter()
        if isinstance(key, CacheKey):
            outcome = await self._guarded(self._bring_cache(key), {"object": str(key)})
            DURATION.labels(outcome.next.value).observe(time.perf_counter() - started)
            return outcome
        body = self.store.get(kinds.LLMSERVICE, key.namespace, key.name)
        if body is None or "deletionTimestamp" in body["metadata"]:
            self.cluster.forget(key)  # owner references delete the children
            return Outcome(Next.DONE)
        where = {"object": str(key), "generation": body["metadata"]["generation"]}
        outcome = await self._guarded(self._bring(body, where), where)
        DURATION.labels(outcome.next.value).observe(time.perf_counter() - started)
        return outcome

    async def _guarded(self, work: Coroutine[Any, Any, Outcome], where: Mapping[str, Any]) -> Outcome:
        try:
            return await work
        except Behind as behind:
            logger.info("the watch is behind: %s exists", behind, extra=where)
            return Outcome(Next.LATER)
        except Ending:
            logger.info("the namespace is being deleted", extra=where)
            return Outcome(Next.DONE)
        except Exception:
            PANICS.inc()
            logger.exception("reconcile failed unexpectedly", extra=where)
            return Outcome(Next.RETRY)

    async def _bring_cache(self, key: CacheKey) -> Outcome:
        done = await self.reconcile_cache(key)
        before = self.refused.pop(key, ())
        if done.applied.refused:
            self.refused[key] = done.applied.refused
        wake = self.store.users(key.namespace, key.claim) if before != done.applied.refused else ()
        if done.applied.failed:
            return Outcome(Next.RETRY, wake=wake)
        settles = SETTLE if _settles(done.applied) else None  # a claim was made: now the copy may begin
        return _later([done.due_in, settles, REFUSAL_STANDS if done.applied.refused else None], wake)

    async def _bring(self, body: Body, where: Mapping[str, Any]) -> Outcome:
        try:
            done = await self.reconcile(body)
        except InvalidSpec as error:
            seen = observe.workload(self.store, body)
            said = status.invalid(body, error, body.get("status") or {}, self.clock(), seen)
            done = Reconciled(said, Applied(), None)
        if _settles(done.applied):
            claim = claim_of(body)
            cache = (CacheKey(body["metadata"]["namespace"], claim[0]),) if claim and claim[1] else ()
            return Outcome(Next.LATER, SETTLE, cache)  # the model may be known now, and the copy may begin
        try:
            if await self.cluster.write_status(body, done.status):
                logger.info("status: %s", summary(done.status), extra=where)
                await self.recorder.tell(body, news.of(body.get("status") or {}, done.status))
        except Superseded as superseded:
            logger.debug("status superseded: %s", superseded, extra=where)
            return Outcome(Next.RETRY)
        except ApiError as error:
            logger.warning("status not written: %s", error.message, extra=where)
            return Outcome(Next.RETRY)
        if done.applied.failed:
            return Outcome(Next.RETRY)
        return _later([done.due_in, REFUSAL_STANDS if done.applied.refused else None])


def _later(waits: Iterable[float | None], wake: tuple[Key, ...] = ()) -> Outcome:
    due = _soonest(*waits)
    return Outcome(Next.LATER, due, wake) if due is not None else Outcome(Next.DONE, wake=wake)


def _soonest(*waits: float | None) -> float | None:
    return min((wait for wait in waits if wait is not None), default=None)


def _settles(applied: Applied) -> bool:
    """A child was written and nothing went wrong: what is seen of it now is stale before a status could say it."""
    wrote = any(child.action in (Action.CREATED, Action.PATCHED) for child in applied.children)
    return wrote and not applied.failed and not applied.refused


def summary(said: Mapping[str, Any]) -> str:
    """The conditions in one line: ``Ready=False (Loading), Reconciling=True (Loading)``."""
    conditions = said.get("conditions") or ()
    return ", ".join(f"{one['type']}={one['status']} ({one['reason']})" for one in conditions)
