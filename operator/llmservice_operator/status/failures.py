"""What a pod says went wrong, in its own words, the engine's, and where those do not tell, its events'.

A pod that has recovered says nothing. No figure in a message changes while nothing happens.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from llmservice_planner.startup import StartupBudget

from llmservice_operator.api import conditions, names
from llmservice_operator.api.seen import Object
from llmservice_operator.status import events as told
from llmservice_operator.status import puzzles
from llmservice_operator.status.events import Cause
from llmservice_operator.status.puzzles import next_look, puzzling

__all__ = ["Failure", "next_look", "of_claim", "of_pod", "puzzling", "worst"]

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
# They alternate: one reason.
_IMAGE = {"ErrImagePull": "ImagePullBackOff", "ImagePullBackOff": "ImagePullBackOff"}
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
_SIGNALS = {4: "SIGILL", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL", 11: "SIGSEGV", 15: "SIGTERM"}
_ABOUT_VOLUMES = (
    "unbound immediate PersistentVolumeClaims",
    "volume node affinity",
    "persistent volumes to bind",
)


@dataclass(frozen=True, slots=True)
class Failure:
    """``final``: only a change of the spec helps. ``rank``: the lower, the more exact the cause.

    ``pod`` is the object's name, ``kind`` what it is; a message about a claim names it, one about a pod does not.
    """

    pod: str
    reason: str
    message: str
    final: bool
    rank: int
    exit_code: int | None = None
    required_bytes: int | None = None
    available_bytes: int | None = None
    time: str | None = None
    kind: str = "pod"

    @property
    def object(self) -> str:
        """``pod llama-1``, ``claim models``."""
        return f"{self.kind} {self.pod}"


def worst(
    pods: Sequence[Object], budget: StartupBudget, events: Mapping[str, Sequence[Object]] | None = None
) -> Failure | None:
    """The most exact failure among ``pods``; of equal ones that of the first pod by name.

    ``events``: by the UID of the pod that they are about. What a newer pod has replaced does not count.
    """
    newest = max((_created(pod) for pod in pods if not _is_over(pod)), default="")
    counting = [pod for pod in pods if not (_is_corpse(pod) and _created(pod) < newest)]
    about = events or {}
    found = [
        failure
        for pod in counting
        if (failure := of_pod(pod, budget, about.get(str(pod["metadata"].get("uid")), ()))) is not None
    ]
    return min(found, key=lambda failure: (failure.rank, failure.pod), default=None)


def of_pod(pod: Object, budget: StartupBudget, events: Sequence[Object] = ()) -> Failure | None:
    """None where the pod is ready, is being deleted by intent, or has no failure to tell."""
    if pod["metadata"].get("deletionTimestamp"):
        return _disrupted(pod)
    if conditions.of(pod, "Ready").get("status") == "True":
        return None
    if lost := _node_lost(pod, events):
        return lost
    for container in _containers(pod):
        failure = _waiting(pod, container, events) or _terminated(pod, container, budget, events)
        if failure is not None:
            return failure
    return _unschedulable(pod) or _not_begun(pod, events) or _unhealthy(pod, events) or _ended(pod)


def of_claim(claim: Object, events: Sequence[Object] = ()) -> Failure | None:
    """Why a claim has no volume. None where it is bound, is being deleted, or may still get one by itself."""
    name, phase = claim["metadata"]["name"], claim.get("status", {}).get("phase", "Pending")
    if claim["metadata"].get("deletionTimestamp"):
        return None
    if phase == "Lost":
        text = f"claim {name} has lost its volume {claim.get('spec', {}).get('volumeName', '')}".rstrip()
        return Failure(name, "ClaimLost", text, final=False, rank=0, kind="claim")
    cause = told.of_claim(events) if phase == "Pending" else None
    if cause is None:
        return None
    reason = conditions.as_reason(cause.reason)
    return Failure(name, reason, f"claim {name}: {cause.message}", cause.final, cause.rank, kind="claim")


# --- of a whole pod ------------------------------------------------------------------------------------------
def _disrupted(pod: Object) -> Failure | None:
    """It goes, but not because its owner wanted so: preempted, drained, or its node is lost."""
    found = conditions.of(pod, "DisruptionTarget")
    if found.get("status") != "True":
        return None
    return _failure(pod, found.get("reason") or "DisruptionTarget", found.get("message", ""), rank=6)


def _node_lost(pod: Object, events: Sequence[Object]) -> Failure | None:
    status, ready = pod.get("status", {}), conditions.of(pod, "Ready")
    unknown = ready.get("status") == "Unknown" or status.get("reason") == "NodeLost"
    since = str(ready.get("lastTransitionTime") or "")
    if not unknown and not (ready.get("status") == "False" and told.node_is_lost(pod, since, events)):
        return None
    words = status.get("message") or ready.get("message") or ""
    text = f"node {pod.get('spec', {}).get('nodeName', '')} does not answer"
    return _failure(pod, "NodeLost", f"{text}: {words}" if words else text, rank=3)


def _unschedulable(pod: Object) -> Failure | None:
    scheduled = conditions.of(pod, "PodScheduled")
    if scheduled.get("status") != "False":
        return None
    text = scheduled.get("message", "")
    if any(words in text for words in _ABOUT_VOLUMES):
        text = f"{text} ({told.claims_of(pod)})"
    return _failure(pod, scheduled.get("reason") or "Unschedulable", text, rank=3)


def _not_begun(pod: Object, events: Sequence[Object]) -> Failure | None:
    """On a node, and no container yet."""
    return _of_cause(pod, told.not_begun(pod, events)) if puzzles.not_begun(pod) else None


def _unhealthy(pod: Object, events: Sequence[Object]) -> Failure | None:
    """A container has started, and a probe of it fails."""
    causes = (told.probe(container, events) for container in _containers(pod) if _is_unready(container))
    return _of_cause(pod, next((cause for cause in causes if cause is not None), None))


def _ended(pod: Object) -> Failure | None:
    """The kubelet ended the whole pod: Evicted, NodeAffinity, UnexpectedAdmissionError…"""
    status = pod.get("status", {})
    if status.get("phase") != "Failed":
        return None
    return _failure(pod, status.get("reason") or "PodFailed", status.get("message", ""), rank=4)


# --- of a container ------------------------------------------------------------------------------------------
def _waiting(pod: Object, container: Mapping[str, Any], events: Sequence[Object]) -> Failure | None:
    waiting = container.get("state", {}).get("waiting", {})
    reason, message = waiting.get("reason", ""), waiting.get("message", "")
    if reason in _IMAGE:
        # the back-off's message quotes the error that it waits after
        text = f"image {container.get('image')}: {message.rpartition('ErrImagePull: ')[2]}"
        missing = told.missing_pull_secrets(events)
        more = f"; pull secret {missing} cannot be had" if missing else ""
        return _failure(pod, _IMAGE[reason], told.tidy(text) + more, rank=1)
    if reason in _BROKEN:
        text = f"{_named(pod, container)}: {told.tidy(message)}"
        final = reason in _FINAL_WAITING
        return _failure(pod, told.absent(message) or reason, text, rank=1, final=final)
    return None


def _terminated(
    pod: Object, container: Mapping[str, Any], budget: StartupBudget, events: Sequence[Object]
) -> Failure | None:
    """The last end of a container that is not ready: it still counts while the next try runs."""
    if container.get("ready"):
        return None
    ended = container.get("state", {}).get("terminated") or container.get("lastState", {}).get("terminated")
    if not ended or (ended.get("exitCode") == 0 and _may_end(pod, container)):
        return None
    name, code = container["name"], ended.get("exitCode")
    figures = {"exit_code": code, "time": ended.get("finishedAt")}
    report = _report(ended.get("message", ""))
    if report is not None:
        return _reported(pod, report, figures)
    if ended.get("reason") == "OOMKilled":
        text = f"{_named(pod, container)} ran out of memory{_memory(pod, name)}"
        return _failure(pod, "OOMKilled", text, rank=2, **figures)
    if code in _STOPPED_BY_KUBELET and (killed := told.killed(container, ended, events)) is not None:
        return _killed(pod, container, budget, killed, figures)
    if name == names.ENGINE and code in _STOPPED_BY_KUBELET:
        return _stopped(pod, ended, budget, figures)
    reason = ended.get("reason") or "Error"
    words = _last_words(ended.get("message", ""))
    text = f"{_named(pod, container)} ended with exit code {_code(code)}" + (f": {words}" if words else "")
    reason = "CrashLoopBackOff" if reason in ("Error", "Completed") else reason
    return _failure(pod, reason, text, rank=2, **figures)


def _killed(
    pod: Object,
    container: Mapping[str, Any],
    budget: StartupBudget,
    killed: tuple[str, str],
    figures: Mapping[str, Any],
) -> Failure:
    """The kubelet has said for which probe it ended the container."""
    probe, words = killed
    if probe == "startup" and container["name"] == names.ENGINE:
        return _too_slow(pod, budget, words, figures)
    text = f"{_named(pod, container)} was restarted: its {probe} probe failed" + (
        f": {words}" if words else ""
    )
    return _failure(pod, "UnhealthyProbe", text, rank=1, **figures)


def _stopped(
    pod: Object, ended: Mapping[str, Any], budget: StartupBudget, figures: Mapping[str, Any]
) -> Failure | None:
    """The engine ended because it was told to, or of itself without a word."""
    ran = (told.moment(ended.get("finishedAt")) - told.moment(ended.get("startedAt"))).total_seconds()
    if 0 < budget.deadline_seconds <= ran <= budget.deadline_seconds + _PROBE_SLACK_SECONDS:
        return _too_slow(pod, budget, "", figures)
    words = _last_words(ended.get("message", ""))
    code = _code(figures["exit_code"])
    text = f"the engine was stopped or ended by itself, with exit code {code} and no report"
    return _failure(pod, "EngineExited", text + (f": {words}" if words else ""), rank=2, **figures)


def _too_slow(pod: Object, budget: StartupBudget, words: str, figures: Mapping[str, Any]) -> Failure:
    text = f"the engine did not become healthy within {budget.deadline_seconds} s ({budget.basis})"
    text += f": {words}" if words else ""
    text += "; raise spec.startup.deadline if it only needs longer"
    return _failure(pod, "StartupDeadlineExceeded", text, rank=1, **figures)


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


# --- words ---------------------------------------------------------------------------------------------------
def _of_cause(pod: Object, cause: Cause | None) -> Failure | None:
    return _failure(pod, cause.reason, cause.message, rank=cause.rank, final=cause.final) if cause else None


def _failure(
    pod: Object, reason: str, message: str, *, rank: int, final: bool = False, **figures: Any
) -> Failure:
    return Failure(
        pod["metadata"]["name"],
        conditions.as_reason(reason),
        told.hide(message.strip()),
        final,
        rank,
        **figures,
    )


def _named(pod: Object, container: Mapping[str, Any]) -> str:
    return f"{'init container' if _is_init(pod, container) else 'container'} {container['name']}"


def _code(code: int | None) -> str:
    signal = _SIGNALS.get((code or 0) - 128)
    return f"{code} ({signal})" if signal else str(code)


def _memory(pod: Object, container: str) -> str:
    """The limit that was passed, and where it is set."""
    where = {
        names.ENGINE: "spec.resources.limits.memory",
        names.PREFETCH: "spec.cache.job.resources.limits.memory",
    }.get(container, "its limit in spec.template")
    limit = _declared(pod, container).get("resources", {}).get("limits", {}).get("memory")
    return (
        f" (limit {limit}); raise {where}"
        if limit
        else f" and has no limit: the node had no more; set {where}"
    )


def _report(text: str) -> Mapping[str, Any] | None:
    """The engine's report on its start-up failure, where the termination message is one."""
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) and isinstance(found.get("code"), str) else None


def _last_words(text: str) -> str:
    """The end of a log, on one line: the last lines tell most. Secrets are hidden before it is cut."""
    lines = [line.strip() for line in told.hide(text).splitlines() if line.strip()]
    return " | ".join(lines[-3:])[-_LOG_CHARACTERS:]


# --- reading a pod -------------------------------------------------------------------------------------------
def _containers(pod: Object) -> Iterator[Mapping[str, Any]]:
    """Statuses in the order in which the containers must come up; the engine before its sidecars."""
    status = pod.get("status", {})
    yield from status.get("initContainerStatuses") or ()
    yield from sorted(status.get("containerStatuses") or (), key=lambda found: found["name"] != names.ENGINE)


def _is_init(pod: Object, container: Mapping[str, Any]) -> bool:
    return any(found is container for found in pod["status"].get("initContainerStatuses") or ())


def _is_unready(container: Mapping[str, Any]) -> bool:
    """It runs, its start-up is over, and a probe says no."""
    started = bool(container.get("started")) and "running" in container.get("state", {})
    return started and not container.get("ready")


def _may_end(pod: Object, container: Mapping[str, Any]) -> bool:
    """With exit code 0: an init container, and the one of a job."""
    return _is_init(pod, container) or pod.get("spec", {}).get("restartPolicy") in ("Never", "OnFailure")


def _declared(pod: Object, container: str) -> Mapping[str, Any]:
    spec = pod.get("spec", {})
    declared = (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
    return next((found for found in declared if found["name"] == container), {})


def _created(pod: Object) -> str:
    return str(pod["metadata"].get("creationTimestamp") or "")


def _is_over(pod: Object) -> bool:
    phase = str(pod.get("status", {}).get("phase"))
    return phase in ("Failed", "Succeeded") or bool(pod["metadata"].get("deletionTimestamp"))


def _is_corpse(pod: Object) -> bool:
    """An ended pod that is replaced by another one, not tried again as a job's is."""
    policy = pod.get("spec", {}).get("restartPolicy", "Always")
    return bool(pod.get("status", {}).get("phase") == "Failed" and policy == "Always")


def _bytes(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
