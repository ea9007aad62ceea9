"""What a judgement is made from, read once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from llmservice_operator.api import attempts, names, revision
from llmservice_operator.api.attempts import Turn
from llmservice_operator.api.planned import Plan
from llmservice_operator.api.seen import Applied, Object, Seen
from llmservice_operator.api.spec import LLMService
from llmservice_operator.status import autoscaling, failures, preparation, progress
from llmservice_operator.status.failures import Failure
from llmservice_operator.status.preparation import Stage, Work


@dataclass(frozen=True, slots=True)
class Counts:
    """Of the Deployment's replicas."""

    replicas: int = 0
    ready: int = 0
    updated: int = 0
    available: int = 0


@dataclass(frozen=True, slots=True)
class View:
    wanted: LLMService
    planned: Plan
    applied: Applied
    claim_exists: bool  # where the spec names one of the user's
    model: Stage | None
    cache: Stage | None
    memory: Stage | None
    autoscaling: Stage | None
    deployment: Object | None  # after our write
    counts: Counts
    replicas: int  # wanted
    current: bool  # the Deployment has this spec's template, and its controller has seen it
    failure: Failure | None  # of the pods of this spec's template
    progress: str  # of those pods, and what slows them; empty: nothing to say


def look(wanted: LLMService, planned: Plan, seen: Seen, applied: Applied) -> View:
    written = applied.of("Deployment")
    deployment = written.live if written is not None and written.live is not None else None
    if deployment is None:
        deployment = seen.child("Deployment", names.child(wanted.name))
    spec_hash = revision.hash_of(wanted)
    pods = revision.pods_of(wanted, seen.pods)
    replicas = _wanted_replicas(wanted, deployment)
    claim = seen.claims.get(wanted.claim_name or "")
    told = (progress.slowest(pods), progress.unshared(claim, replicas))
    owned = wanted.cache is not None and wanted.cache.mode != "Existing"
    return View(
        wanted=wanted,
        planned=planned,
        applied=applied,
        claim_exists=owned or claim is not None,
        model=_model(wanted, planned, seen),
        cache=_cache(wanted, planned, seen),
        memory=preparation.memory(wanted, planned.memory),
        autoscaling=autoscaling.stage(wanted, planned, seen, applied),
        deployment=deployment,
        counts=counts(deployment),
        replicas=replicas,
        current=_is_current(deployment, spec_hash),
        failure=failures.worst(pods, planned.budget, seen.events),
        progress="; ".join(text for text in told if text),
    )


def _model(wanted: LLMService, planned: Plan, seen: Seen) -> Stage | None:
    if planned.lookup is None and planned.model is None:
        return None
    return preparation.model(wanted, planned.model, _work(planned.lookup, seen.pods), seen)


def _cache(wanted: LLMService, planned: Plan, seen: Seen) -> Stage | None:
    if wanted.cache is None or wanted.claim_name is None:
        return None
    copied = planned.copied(wanted) and seen.cache.claim is not None
    return preparation.cache(wanted, planned.model, _work(planned.copy, seen.cache.pods), copied, seen)


def _work(turn: Turn | None, pods: tuple[Object, ...]) -> Work:
    if turn is None:
        return Work((), ())
    return Work(attempts.pods_of(turn.job, pods), attempts.pods_of(turn.before, pods))


def counts(deployment: Object | None) -> Counts:
    status = (deployment or {}).get("status", {})
    return Counts(
        replicas=status.get("replicas", 0),
        ready=status.get("readyReplicas", 0),
        updated=status.get("updatedReplicas", 0),
        available=status.get("availableReplicas", 0),
    )


def _wanted_replicas(wanted: LLMService, deployment: Object | None) -> int:
    if wanted.least_replicas is not None:
        return wanted.least_replicas
    return int((deployment or {}).get("spec", {}).get("replicas", 1))


def _is_current(deployment: Object | None, spec_hash: str) -> bool:
    if deployment is None:
        return False
    observed = deployment.get("status", {}).get("observedGeneration", 0)
    template = deployment["spec"]["template"]["metadata"]
    return _label(template) == spec_hash and observed >= deployment["metadata"].get("generation", 0)


def _label(metadata: Mapping[str, Any]) -> str | None:
    found = (metadata.get("labels") or {}).get(names.REVISION_LABEL)
    return str(found) if found else None
