"""Which pods' events are worth a request: those whose own state does not say why they wait.

Nothing tells the operator that an event was written, so a puzzling pod is looked at again from time to time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from llmservice_operator.api import conditions
from llmservice_operator.api.seen import Object
from llmservice_operator.status import events

WAITS = 3.0  # seconds on a node without a container: mounting takes less where all is well
UNREADY = 10.0  # seconds between a container's start-up and its readiness
LOOK_AGAIN = 10.0  # seconds, at first; later a tenth of the time that it has waited
LOOK_AGAIN_LATEST = 60.0
_STOPPED = frozenset({0, 137, 143})  # exit codes that do not tell a failed probe from an own end
_IMAGE = frozenset({"ErrImagePull", "ImagePullBackOff"})


def puzzling(pods: Sequence[Object], now: datetime) -> tuple[Object, ...]:
    """Pods that have waited long enough, for no reason that they give."""
    return tuple(pod for pod in pods if (left := _left(pod, now)) is not None and left <= 0)


def next_look(pods: Sequence[Object], now: datetime) -> float | None:
    """Seconds until their events are worth a look, or another one; None where their state says all."""
    found = []
    for pod in pods:
        left = _left(pod, now)
        if left is not None:
            found.append(left if left > 0 else min(max(LOOK_AGAIN, -left / 10), LOOK_AGAIN_LATEST))
    return min(found, default=None)


def not_begun(pod: Object) -> bool:
    """On a node, and without a container or the sandbox for one."""
    status = pod.get("status", {})
    if (
        status.get("phase", "Pending") != "Pending"
        or conditions.of(pod, "PodReadyToStartContainers").get("status") == "True"
    ):
        return False
    statuses = tuple(_statuses(pod))
    placed = bool(statuses or pod.get("spec", {}).get("nodeName"))
    return placed and all(_is_new(found) for found in statuses)


def _is_new(container: Mapping[str, Any]) -> bool:
    state = container.get("state", {})
    reason = state.get("waiting", {}).get("reason", "PodInitializing")
    fresh = set(state) <= {"waiting"} and not container.get("lastState")
    return fresh and reason in ("ContainerCreating", "PodInitializing")


def _left(pod: Object, now: datetime) -> float | None:
    """Seconds until it puzzles; negative: for how long it has. None where it does not."""
    status = pod.get("status", {})
    ready = conditions.of(pod, "Ready")
    ended = status.get("phase") in ("Failed", "Succeeded")
    if pod["metadata"].get("deletionTimestamp") or ended or ready.get("status") == "True":
        return None
    created = pod["metadata"].get("creationTimestamp")
    for found in _statuses(pod):
        waiting = found.get("state", {}).get("waiting", {}).get("reason")
        if waiting in _IMAGE:
            return 0.0 if pod.get("spec", {}).get("imagePullSecrets") else None
        if _was_stopped(found):
            return 0.0
    if not_begun(pod):
        since = conditions.of(pod, "PodScheduled").get("lastTransitionTime") or created
        return WAITS - _seconds(since, now)
    if any(found.get("started") and not found.get("ready") for found in _statuses(pod)) or _all_ready(pod):
        return UNREADY - _seconds(ready.get("lastTransitionTime") or created, now)
    return None


def _was_stopped(container: Mapping[str, Any]) -> bool:
    """By the kubelet, perhaps: its state does not say why."""
    ended = (
        container.get("state", {}).get("terminated") or container.get("lastState", {}).get("terminated") or {}
    )
    reported = str(ended.get("message") or "").startswith("{")
    silent = ended.get("exitCode") in _STOPPED and ended.get("reason") != "OOMKilled" and not reported
    return silent and bool(container.get("restartCount")) and not container.get("ready")


def _all_ready(pod: Object) -> bool:
    """Every container is, the pod is not: its node does not answer, or a gate is closed."""
    given = pod.get("status", {}).get("containerStatuses") or ()
    return bool(given) and all(found.get("ready") for found in given)


def _seconds(since: object, now: datetime) -> float:
    return (now - events.moment(since)).total_seconds()


def _statuses(pod: Object) -> Iterator[Mapping[str, Any]]:
    status = pod.get("status", {})
    yield from status.get("initContainerStatuses") or ()
    yield from status.get("containerStatuses") or ()
