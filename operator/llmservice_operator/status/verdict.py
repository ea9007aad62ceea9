"""The chain of questions that decides an object's state. The first one that has an answer counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from llmservice_operator.api import conditions
from llmservice_operator.api.seen import AppliedChild
from llmservice_operator.status.view import View


class State(Enum):
    READY = "ready"
    RECONCILING = "reconciling"  # may still succeed
    STALLED = "stalled"  # the spec must change, or time is up


@dataclass(frozen=True, slots=True)
class Verdict:
    state: State
    reason: str
    message: str


def decide(seen: View) -> Verdict:
    for question in _QUESTIONS:
        verdict = question(seen)
        if verdict is not None:
            return verdict
    return _ready(seen)


def child_is_refused(seen: View) -> Verdict | None:
    for child in seen.applied.refused:
        text = f"{child.kind} {child.name}: {child.message}"
        return Verdict(State.STALLED, _refusal(seen, child), text)
    return None


def write_failed(seen: View) -> Verdict | None:
    for child in seen.applied.failed:
        return Verdict(State.RECONCILING, "ApplyFailed", f"{child.kind} {child.name}: {child.message}")
    return None


def nothing_is_wanted(seen: View) -> Verdict | None:
    if seen.replicas or seen.counts.replicas:
        return None
    if seen.deployment is not None and not _observed(seen):
        return None
    if seen.wanted.spec.suspend:
        return Verdict(State.READY, "Suspended", "suspended: no replica runs")
    return Verdict(State.READY, "ScaledToZero", "scaled to zero: no replica runs")


def claim_is_missing(seen: View) -> Verdict | None:
    if seen.claim_exists:
        return None
    name, namespace = seen.wanted.claim_name, seen.wanted.namespace
    where = "spec.model.source.pvc.claimName" if seen.wanted.cache is None else "spec.cache.claimName"
    text = f"PersistentVolumeClaim {name} does not exist in namespace {namespace} ({where})"
    if seen.counts.available:
        text += "; what runs goes on"
    return Verdict(State.RECONCILING, "ClaimNotFound", text)


def model_is_not_prepared(seen: View) -> Verdict | None:
    """The model is being looked up or copied, or must not start for want of memory: the pods wait for that."""
    if seen.current:
        return None
    memory = seen.memory if seen.planned.forbids_pods(seen.wanted) else None
    for stage in (seen.model, memory, seen.cache):
        if stage is not None and not stage.done:
            text = stage.message + ("; what runs goes on" if seen.counts.available else "")
            return Verdict(State.STALLED if stage.final else State.RECONCILING, stage.reason, text)
    return None


def deployment_is_not_observed(seen: View) -> Verdict | None:
    if seen.current:
        return None
    return Verdict(State.RECONCILING, "DeploymentPending", "waiting for the Deployment's controller")


def all_replicas_are_up(seen: View) -> Verdict | None:
    counts = seen.counts
    scaled = seen.wanted.spec.autoscaling is not None  # more than the least may be on their way
    enough = (
        counts.available >= seen.replicas if scaled else counts.replicas == counts.available == seen.replicas
    )
    return _ready(seen) if enough and counts.updated == counts.replicas else None


def time_is_up(seen: View) -> Verdict | None:
    progressing = _deployment_condition(seen, "Progressing")
    if progressing.get("reason") != "ProgressDeadlineExceeded":
        return None
    cause = pods_cannot_be_made(seen) or pods_are_failing(seen)
    if cause is not None:
        return Verdict(State.STALLED, cause.reason, cause.message)
    text = _with_progress(seen, progressing.get("message", ""))
    return Verdict(State.STALLED, "ProgressDeadlineExceeded", text)


def pods_are_failing(seen: View) -> Verdict | None:
    if seen.failure is None:
        return None
    state = State.STALLED if seen.failure.final else State.RECONCILING
    return Verdict(state, seen.failure.reason, _pod_message(seen))


def pods_cannot_be_made(seen: View) -> Verdict | None:
    """A quota, a pod security level or a missing runtime class stands in the way."""
    failing = _deployment_condition(seen, "ReplicaFailure")
    if failing.get("status") != "True":
        return None
    return Verdict(State.RECONCILING, failing.get("reason") or "FailedCreate", failing.get("message", ""))


def rollout_is_under_way(seen: View) -> Verdict | None:
    if seen.counts.updated >= seen.replicas:
        return None
    return Verdict(
        State.RECONCILING, "RollingOut", _with_progress(seen, f"{_of(seen, seen.counts.updated)} updated")
    )


def replicas_are_starting(seen: View) -> Verdict | None:
    if seen.counts.available >= seen.replicas:
        return None
    text = _with_progress(seen, f"{_of(seen, seen.counts.available)} available")
    return Verdict(State.RECONCILING, "ReplicasStarting", text)


def old_replicas_remain(seen: View) -> Verdict | None:
    extra = seen.counts.replicas - seen.replicas
    return Verdict(State.RECONCILING, "ReplicasEnding", f"{extra} more replicas than wanted are ending")


_QUESTIONS: tuple[Callable[[View], Verdict | None], ...] = (
    child_is_refused,
    write_failed,
    nothing_is_wanted,
    claim_is_missing,
    model_is_not_prepared,
    deployment_is_not_observed,
    all_replicas_are_up,
    time_is_up,
    pods_cannot_be_made,
    pods_are_failing,
    rollout_is_under_way,
    replicas_are_starting,
    old_replicas_remain,
)


def _ready(seen: View) -> Verdict:
    """All is well; what the cluster cannot give is said beside it."""
    lacking = [f"the cluster has no kind {kind}, which the spec asks for" for kind in seen.planned.lacking]
    text = "; ".join([f"{_of(seen, seen.counts.available)} available", *lacking])
    return Verdict(State.READY, "ReplicasAvailable", text)


def _refusal(seen: View, child: AppliedChild) -> str:
    match child.status_code:
        case None | 409:
            return "ChildConflict"  # somebody else owns an object of that name
        case 403:
            return "Forbidden"
        case _ if child.kind == "Service":
            return "InvalidService"
    given = seen.wanted.spec.template
    return "InvalidTemplate" if given.spec or given.metadata else "InvalidSpec"


def _observed(seen: View) -> bool:
    deployment = seen.deployment or {}
    observed = deployment.get("status", {}).get("observedGeneration", 0)
    return bool(observed >= deployment.get("metadata", {}).get("generation", 0))


def _deployment_condition(seen: View, kind: str) -> dict[str, str]:
    return dict(conditions.of(seen.deployment, kind)) if seen.deployment is not None else {}


def _pod_message(seen: View) -> str:
    assert seen.failure is not None, "asked only where a pod fails"
    text = f"pod {seen.failure.pod}: {seen.failure.message}"
    if not seen.counts.available or not _is_rolling(seen):
        return text
    text += "; older replicas still serve"
    if seen.failure.reason == "Unschedulable" and seen.wanted.spec.rollout.strategy == "Surge":
        text += ", and stay, as spec.rollout.strategy is Surge: make room, or set Auto or Recycle"
    return text


def _with_progress(seen: View, text: str) -> str:
    return f"{text}; {seen.progress}" if seen.progress else text


def _is_rolling(seen: View) -> bool:
    return seen.counts.updated < seen.counts.replicas or seen.counts.updated < seen.replicas


def _of(seen: View, count: int) -> str:
    return f"{count} of {seen.replicas} replica{'' if seen.replicas == 1 else 's'}"
