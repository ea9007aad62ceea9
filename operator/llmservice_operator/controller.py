"""One idempotent reconcile for every cause: creation, edit, restart, relist, a child's event, a timer."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from prometheus_client import Counter, Histogram

from llmservice_operator import status
from llmservice_operator.api import spec
from llmservice_operator.api.defaults import Defaults
from llmservice_operator.api.errors import InvalidSpec
from llmservice_operator.api.seen import Action, Applied
from llmservice_operator.desired import plan, render
from llmservice_operator.live import kinds, observe
from llmservice_operator.live.client import ApiError
from llmservice_operator.live.cluster import REFUSAL_STANDS, Behind, Cluster, Ending, Superseded
from llmservice_operator.live.store import Body, Key, Store

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


@dataclass(frozen=True, slots=True)
class Controller:
    """Where reconciles read, what they write to, and the cluster-wide defaults."""

    store: Store
    cluster: Cluster
    defaults: Defaults
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)

    async def reconcile(self, body: Body) -> tuple[Mapping[str, Any], Applied]:
        wanted = spec.parse(body)  # pure
        seen = observe.observe(self.store, wanted)  # no request
        budget = plan.budget(wanted, seen)  # pure
        rendered = render.render(wanted, budget, seen, self.defaults)  # pure
        applied = await self.cluster.apply(wanted, rendered, render.unwanted(rendered, seen))
        return status.judge(
            wanted, budget, seen, applied, self.clock(), body.get("status") or {}
        ), applied  # pure

    async def handle(self, key: Key) -> Outcome:
        """Reconcile the object ``key`` and say what comes next. Never raises: one bad object hurts no other."""
        started = time.perf_counter()
        body = self.store.get(kinds.LLMSERVICE, key.namespace, key.name)
        if body is None or "deletionTimestamp" in body["metadata"]:
            self.cluster.forget(key)  # owner references delete the children
            return Outcome(Next.DONE)
        where = {"object": str(key), "generation": body["metadata"]["generation"]}
        try:
            outcome = await self._bring(body, where)
        except Exception:
            PANICS.inc()
            logger.exception("reconcile failed unexpectedly", extra=where)
            outcome = Outcome(Next.RETRY)
        DURATION.labels(outcome.next.value).observe(time.perf_counter() - started)
        return outcome

    async def _bring(self, body: Body, where: Mapping[str, Any]) -> Outcome:
        try:
            said, applied = await self.reconcile(body)
        except InvalidSpec as error:
            seen = observe.workload(self.store, body)
            said, applied = (
                status.invalid(body, error, body.get("status") or {}, self.clock(), seen),
                Applied(),
            )
        except Behind as behind:
            logger.info("the watch is behind: %s exists", behind, extra=where)
            return Outcome(Next.LATER)
        except Ending:
            logger.info("the namespace is being deleted", extra=where)
            return Outcome(Next.DONE)
        if _settles(applied):
            return Outcome(Next.LATER, SETTLE)
        try:
            if await self.cluster.write_status(body, said):
                logger.info("status: %s", summary(said), extra=where)
        except Superseded as superseded:
            logger.debug("status superseded: %s", superseded, extra=where)
            return Outcome(Next.RETRY)
        except ApiError as error:
            logger.warning("status not written: %s", error.message, extra=where)
            return Outcome(Next.RETRY)
        if applied.failed:
            return Outcome(Next.RETRY)
        return Outcome(Next.LATER, REFUSAL_STANDS) if applied.refused else Outcome(Next.DONE)


def _settles(applied: Applied) -> bool:
    """A child was written and nothing went wrong: what is seen of it now is stale before a status could say it."""
    wrote = any(child.action in (Action.CREATED, Action.PATCHED) for child in applied.children)
    return wrote and not applied.failed and not applied.refused


def summary(said: Mapping[str, Any]) -> str:
    """The conditions in one line: ``Ready=False (Loading), Reconciling=True (Loading)``."""
    conditions = said.get("conditions") or ()
    return ", ".join(f"{one['type']}={one['status']} ({one['reason']})" for one in conditions)
