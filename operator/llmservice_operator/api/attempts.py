"""Jobs that are tried again: one Kubernetes Job for each attempt, numbered, the next one after a growing pause.

The number is in the Job, so a restarted operator goes on counting. The attempt before the newest one stays until
that has ended: what went wrong is still there to be read while it is tried again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from llmservice_operator.api import names
from llmservice_operator.api.seen import Object

PAUSE_FIRST = 5.0  # seconds after the first failure; each further one doubles it
PAUSE_LONGEST = 300.0


@dataclass(frozen=True, slots=True)
class Turn:
    """The attempt that counts now."""

    number: int
    job: Object | None  # None: it is to be made
    before: Object | None = None  # the attempt before, where it is still there
    due_in: float | None = None  # seconds until the next attempt, where this one has failed

    @property
    def complete(self) -> bool:
        return self.job is not None and self.due_in is None and ended(self.job) == "Complete"


def turn(jobs: Iterable[Object], base: str, now: datetime, lost: frozenset[str] = frozenset()) -> Turn:
    """The current attempt of the jobs named ``base-N``. ``lost``: UIDs of jobs whose result is gone."""
    series = sorted((job for job in jobs if _base(job) == base), key=number)
    if not series:
        return Turn(1, None)
    newest, count = series[-1], number(series[-1])
    before = series[-2] if len(series) > 1 else None
    if ended(newest) == "Failed" or newest["metadata"].get("uid") in lost:
        pause = min(PAUSE_FIRST * 2.0 ** min(count - 1, 16), PAUSE_LONGEST)
        due_in = (_ended_at(newest) + timedelta(seconds=pause) - now).total_seconds()
        return Turn(count + 1, None, newest) if due_in <= 0 else Turn(count, newest, before, due_in)
    return Turn(count, newest, before)


def surplus(jobs: Iterable[Object], keep: Iterable[Turn | None]) -> tuple[str, ...]:
    """Names of the jobs that are neither a current attempt nor the one that it has not replaced yet."""
    kept: set[str] = set()
    for one in keep:
        if one is None:
            continue
        replaced = one.job is not None and ended(one.job) is not None
        for job in (one.job, None if replaced else one.before):
            if job is not None:
                kept.add(str(job["metadata"]["name"]))
    return tuple(sorted(str(job["metadata"]["name"]) for job in jobs if job["metadata"]["name"] not in kept))


def name(base: str, attempt: int) -> str:
    return names.child(base, str(attempt))


def marks(base: str, attempt: int) -> dict[str, str]:
    """Annotations of an attempt's job."""
    return {names.ATTEMPT: f"{base}/{attempt}"}


def number(job: Object) -> int:
    return int(_mark(job).rpartition("/")[2] or 0)


def ended(job: Object) -> str | None:
    """``Complete``, ``Failed``, or None while it goes on."""
    for condition in job.get("status", {}).get("conditions") or ():
        if condition.get("type") in ("Complete", "Failed") and condition.get("status") == "True":
            return str(condition["type"])
    return None


def pods_of(job: Object | None, pods: Iterable[Object]) -> tuple[Object, ...]:
    """The pods of a job, the newest last."""
    if job is None:
        return ()
    uid = job["metadata"].get("uid")
    found = [
        pod
        for pod in pods
        if any(owner.get("uid") == uid for owner in pod["metadata"].get("ownerReferences") or ())
    ]
    return tuple(sorted(found, key=lambda pod: str(pod["metadata"].get("creationTimestamp", ""))))


def _base(job: Object) -> str:
    return _mark(job).rpartition("/")[0]


def _mark(job: Object) -> str:
    found: dict[str, Any] = job["metadata"].get("annotations") or {}
    return str(found.get(names.ATTEMPT, ""))


def _ended_at(job: Object) -> datetime:
    for condition in job.get("status", {}).get("conditions") or ():
        if condition.get("type") in ("Complete", "Failed") and condition.get("lastTransitionTime"):
            return datetime.fromisoformat(condition["lastTransitionTime"])
    return datetime.fromisoformat(job["metadata"]["creationTimestamp"])
