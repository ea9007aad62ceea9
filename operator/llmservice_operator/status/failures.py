"""What a pod says went wrong, in its own words and in the engine's.

Read from pod objects alone; a pod that has recovered says nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from llmservice_planner.startup import StartupBudget

from llmservice_operator.api import conditions, names
from llmservice_operator.api.seen import Object

# Codes of the engine's report that no waiting cures: the spec must change.
_FINAL_CODES = frozenset(
    {
        "InsufficientGPUMemory",
        "InsufficientMemory",
        "InvalidSettings",
        "SharedMemoryTooSmall",
        "UnsupportedArchitecture",
    }
)
_IMAGE = {
    "ErrImagePull": "ImagePullBackOff",
    "ImagePullBackOff": "ImagePullBackOff",
}  # they alternate: one reason
_BROKEN = frozenset(
    {
        "CreateContainerConfigError",
        "CreateContainerError",
        "ErrImageNeverPull",
        "ImageInspectError",
        "InvalidImageName",
        "PostStartHookError",
        "RegistryUnavailable",
        "RunContainerError",
    }
)
_FINAL_WAITING = frozenset({"InvalidImageName", "ErrImageNeverPull"})
_STOPPED_BY_KUBELET = frozenset({0, 137, 143})  # exit codes after a probe failed: drained, killed, terminated
_PROBE_SLACK_SECONDS = 90  # from the startup probe's last failure to the end of the container, at most
_LOG_CHARACTERS = 600


@dataclass(frozen=True, slots=True)
class Failure:
    """``final``: only a change of the spec helps. ``rank``: the lower, the more exact the cause."""

    pod: str
    reason: str
    message: str
    final: bool
    rank: int
    exit_code: int | None = None
    required_bytes: int | None = None
    available_bytes: int | None = None
    time: str | None = None


def worst(pods: Sequence[Object], budget: StartupBudget) -> Failure | None:
    """The most exact failure among ``pods``; of equal ones that of the first pod by name."""
    found = [failure for pod in pods if (failure := of_pod(pod, budget)) is not None]
    return min(found, key=lambda failure: (failure.rank, failure.pod), default=None)


def of_pod(pod: Object, budget: StartupBudget) -> Failure | None:
    """None where the pod is ready, is being deleted, or has no failure to tell."""
    if pod["metadata"].get("deletionTimestamp") or _condition(pod, "Ready").get("status") == "True":
        return None
    for container in _containers(pod):
        failure = _waiting(pod, container) or _terminated(pod, container, budget)
        if failure is not None:
            return failure
    return _unschedulable(pod) or _ended(pod)


def _unschedulable(pod: Object) -> Failure | None:
    scheduled = _condition(pod, "PodScheduled")
    if scheduled.get("status") != "False":
        return None
    return _failure(pod, scheduled.get("reason") or "Unschedulable", scheduled.get("message", ""), rank=3)


def _ended(pod: Object) -> Failure | None:
    """The kubelet ended the whole pod: Evicted, NodeAffinity, UnexpectedAdmissionError…"""
    status = pod.get("status", {})
    if status.get("phase") != "Failed":
        return None
    return _failure(pod, status.get("reason") or "PodFailed", status.get("message", ""), rank=4)


def _waiting(pod: Object, container: Mapping[str, Any]) -> Failure | None:
    waiting = container.get("state", {}).get("waiting", {})
    reason, message = waiting.get("reason", ""), waiting.get("message", "")
    if reason in _IMAGE:
        cause = message.rpartition("ErrImagePull: ")[
            2
        ]  # the back-off's message quotes the error that it waits after
        return _failure(pod, _IMAGE[reason], f"image {container.get('image')}: {cause}", rank=1)
    if reason in _BROKEN:
        text = f"container {container['name']}: {message}"
        return _failure(pod, reason, text, rank=1, final=reason in _FINAL_WAITING)
    return None


def _terminated(pod: Object, container: Mapping[str, Any], budget: StartupBudget) -> Failure | None:
    """The last end of a container that is not ready: it still counts while the next try runs."""
    if container.get("ready"):
        return None
    ended = container.get("state", {}).get("terminated") or container.get("lastState", {}).get("terminated")
    if not ended or (_is_init(pod, container) and ended.get("exitCode") == 0):
        return None
    name, code = container["name"], ended.get("exitCode")
    figures = {"exit_code": code, "time": ended.get("finishedAt")}
    report = _report(ended.get("message", ""))
    if report is not None:
        return _reported(pod, report, figures)
    if ended.get("reason") == "OOMKilled":
        text = f"container {name} ran out of memory{_memory_limit(pod, name)}; raise spec.resources.limits.memory"
        return _failure(pod, "OOMKilled", text, rank=2, **figures)
    if name == names.ENGINE and code in _STOPPED_BY_KUBELET:
        return _stopped(pod, ended, budget, figures)
    reason = ended.get("reason") or "Error"
    words = _last_words(ended.get("message", ""))
    text = f"container {name} ended with exit code {code}" + (f": {words}" if words else "")
    return _failure(pod, "CrashLoopBackOff" if reason == "Error" else reason, text, rank=2, **figures)


def _stopped(
    pod: Object, ended: Mapping[str, Any], budget: StartupBudget, figures: Mapping[str, Any]
) -> Failure | None:
    """The engine ended because it was told to, or of itself without a word."""
    ran = _seconds(ended)
    if ran is not None and budget.deadline_seconds <= ran <= budget.deadline_seconds + _PROBE_SLACK_SECONDS:
        text = (
            f"the engine did not become healthy within {budget.deadline_seconds} s ({budget.basis}); "
            "raise spec.startup.deadline if it only needs longer"
        )
        return _failure(pod, "StartupDeadlineExceeded", text, rank=1, **figures)
    words = _last_words(ended.get("message", ""))
    text = f"the engine was stopped or ended by itself, with exit code {figures['exit_code']} and no report"
    return _failure(pod, "EngineExited", text + (f": {words}" if words else ""), rank=2, **figures)


def _reported(pod: Object, report: Mapping[str, Any], figures: Mapping[str, Any]) -> Failure:
    code = conditions.as_reason(str(report["code"]))
    hint = str(report.get("hint") or "")
    message = str(report.get("message") or code)
    return _failure(
        pod,
        code,
        message if not hint or hint in message else f"{message}; {hint}",
        rank=0,
        final=code in _FINAL_CODES,
        required_bytes=_bytes(report.get("requiredBytes")),
        available_bytes=_bytes(report.get("availableBytes")),
        **figures,
    )


def _failure(
    pod: Object, reason: str, message: str, *, rank: int, final: bool = False, **figures: Any
) -> Failure:
    return Failure(
        pod["metadata"]["name"], conditions.as_reason(reason), message.strip(), final, rank, **figures
    )


def _report(text: str) -> Mapping[str, Any] | None:
    """The engine's report on its start-up failure, where the termination message is one."""
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) and isinstance(found.get("code"), str) else None


def _last_words(text: str) -> str:
    """The end of a log, on one line: the last lines tell most."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " | ".join(lines[-3:])[-_LOG_CHARACTERS:]


def _containers(pod: Object) -> Iterator[Mapping[str, Any]]:
    """Statuses in the order in which the containers must come up; the engine before its sidecars."""
    status = pod.get("status", {})
    yield from status.get("initContainerStatuses") or ()
    yield from sorted(status.get("containerStatuses") or (), key=lambda found: found["name"] != names.ENGINE)


def _is_init(pod: Object, container: Mapping[str, Any]) -> bool:
    return any(found is container for found in pod["status"].get("initContainerStatuses") or ())


def _memory_limit(pod: Object, container: str) -> str:
    for found in pod.get("spec", {}).get("containers") or ():
        if found["name"] == container:
            limit = found.get("resources", {}).get("limits", {}).get("memory")
            return f" (limit {limit})" if limit else ""
    return ""


def _condition(pod: Object, kind: str) -> Mapping[str, Any]:
    given: Sequence[Mapping[str, Any]] = pod.get("status", {}).get("conditions") or ()
    return next((condition for condition in given if condition.get("type") == kind), {})


def _seconds(ended: Mapping[str, Any]) -> float | None:
    try:
        began, finished = (datetime.fromisoformat(ended[key]) for key in ("startedAt", "finishedAt"))
    except (KeyError, TypeError, ValueError):
        return None
    return (finished - began).total_seconds()


def _bytes(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
