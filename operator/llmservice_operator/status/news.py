"""What has changed between two statuses that a person wants to read under ``kubectl describe``.

States, not figures: a count that grows is no news. One state is told once, though several conditions carry it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from llmservice_operator.api import conditions
from llmservice_operator.status import reasons

Status = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class News:
    """As an Event has it."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str


def of(previous: Status, status: Status) -> tuple[News, ...]:
    """In the order in which they are to be read; none where only figures and times differ."""
    found: list[News] = []
    for news in _all(_Change(previous, status)):
        if news.reason not in {one.reason for one in found}:
            found.append(news)
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Change:
    before: Status
    after: Status

    def now(self, type: str) -> Mapping[str, Any]:  # noqa: A002 (Kubernetes' word)
        return _condition(self.after, type)

    def turned(self, type: str, status: str) -> bool:  # noqa: A002
        """It has that status now and had not before; with another reason it counts as another state."""
        now, before = self.now(type), _condition(self.before, type)
        state = (status, now.get("reason"))
        return now.get("status") == status and state != (before.get("status"), before.get("reason"))


def _all(change: _Change) -> Iterator[News]:
    yield from _steps(change)
    yield from _state(change)
    yield from _troubles(change)
    yield from _last_failure(change)


def _steps(change: _Change) -> Iterator[News]:
    """What was done on the way."""
    resolved = change.now(conditions.MODEL_RESOLVED)
    revisions = [(side.get("model") or {}).get("revision") for side in (change.before, change.after)]
    other = revisions[0] != revisions[1] and resolved.get("status") == "True"
    if other or change.turned(conditions.MODEL_RESOLVED, "True"):
        yield _normal(resolved)
    if change.turned(conditions.CACHE_READY, "True"):
        yield _normal(change.now(conditions.CACHE_READY))


def _state(change: _Change) -> Iterator[News]:
    """Ready or not, and why; that waiting alone does not help is said once more."""
    stalled, ready = change.now(conditions.STALLED), change.now(conditions.READY)
    said_before = _condition(change.before, conditions.STALLED)
    other_spec = stalled.get("observedGeneration") != said_before.get("observedGeneration")
    if change.turned(conditions.STALLED, "True") or (
        stalled and other_spec and stalled.get("message") != said_before.get("message")
    ):
        yield News("Warning", str(stalled["reason"]), f"stalled: {stalled.get('message', '')}")
    elif change.turned(conditions.READY, "True"):
        yield _normal(ready)
    elif change.turned(conditions.READY, "False"):
        yield _by_reason(ready)


def _troubles(change: _Change) -> Iterator[News]:
    if change.turned(conditions.AVAILABLE, "False"):
        was = _condition(change.before, conditions.AVAILABLE).get("status")
        if was == "True":
            yield News(
                "Warning", str(change.now(conditions.AVAILABLE)["reason"]), "no replica answers any more"
            )
    for kind in (conditions.MODEL_RESOLVED, conditions.CACHE_READY, conditions.MEMORY_FITS):
        if change.turned(kind, "False"):
            news = _by_reason(change.now(kind))
            if news.type == "Warning":
                yield news
    if change.turned(conditions.AUTOSCALING_ACTIVE, "False"):
        yield _by_reason(change.now(conditions.AUTOSCALING_ACTIVE))
    elif change.turned(conditions.AUTOSCALING_ACTIVE, "True"):
        yield _normal(change.now(conditions.AUTOSCALING_ACTIVE))


def _last_failure(change: _Change) -> Iterator[News]:
    """Another one than before: the same one again, in the same pod, is told by the pod's own events."""
    now, before = (side.get("lastFailure") or {} for side in (change.after, change.before))
    if now and any(now.get(key) != before.get(key) for key in ("pod", "code", "message")):
        yield News("Warning", str(now.get("code")), f"pod {now.get('pod')}: {now.get('message')}")


def _normal(condition: Mapping[str, Any]) -> News:
    return News("Normal", str(condition["reason"]), str(condition.get("message", "")))


def _by_reason(condition: Mapping[str, Any]) -> News:
    """Under way, or in trouble? What the catalogue does not know is trouble."""
    reason = str(condition["reason"])
    kind: Literal["Normal", "Warning"] = "Normal" if reasons.is_progress(reason) else "Warning"
    return News(kind, reason, str(condition.get("message", "")))


def _condition(status: Status, kind: str) -> Mapping[str, Any]:
    return next((found for found in status.get("conditions") or () if found.get("type") == kind), {})
