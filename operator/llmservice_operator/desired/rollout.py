"""How replicas are replaced: decided once for each new template, and again only where the decision cannot work out.

``Auto`` surges where a device is free, because then no request has to wait, and recycles in place where none is,
because a spare replica would wait for ever. The decision stands in an annotation of the Deployment, so that it holds
until the rollout is over, whoever leads.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from llmservice_operator.api import names, revision
from llmservice_operator.api.planned import Plan, Rollout
from llmservice_operator.api.seen import Object, Seen
from llmservice_operator.api.spec import LLMService
from llmservice_operator.desired import revisions

PATIENCE = 30.0  # seconds that a spare replica may wait for a device that was free


def begins(wanted: LLMService, planned: Plan, seen: Seen) -> bool:
    """Must it be known now how many devices are free? Not while the new template still waits for its model."""
    if wanted.spec.rollout.strategy != "Auto" or not wanted.spec.accelerator.count:
        return False
    prepared = planned.copied(wanted) and not planned.forbids_pods(wanted)
    return prepared and _runs_another(wanted, seen) and _decided(wanted, seen) is None


def decide(wanted: LLMService, seen: Seen, now: datetime) -> Rollout:
    """The strategy for the spec as it is now, and why."""
    chosen, device = wanted.spec.rollout.strategy, wanted.spec.accelerator
    if chosen != "Auto":
        return Rollout(chosen, "as spec.rollout.strategy says")
    if not device.count:
        return Rollout("Surge", "replicas hold no devices")
    what = f"{device.count} {device.resource_name}"
    before = _decided(wanted, seen)
    if before is not None and before.strategy == "Surge" and _waits_in_vain(wanted, seen, now):
        return Rollout("Recycle", f"a spare replica waited {PATIENCE:.0f} s for {what} in vain", True)
    if before is not None:
        return before
    if seen.free is None:
        return Rollout("Recycle", f"each replica holds {what}, and no spare one may exist")
    if seen.free >= 1:
        return Rollout("Surge", f"{what} for a spare replica were free when the rollout began", True)
    return Rollout("Recycle", f"no node had {what} free for a spare replica when the rollout began", True)


def annotation(wanted: LLMService, decided: Rollout) -> dict[str, str]:
    """What keeps the decision, where it was found out."""
    if not decided.found_out:
        return {}
    return {names.ROLLOUT: f"{revision.hash_of(wanted)} {decided.strategy}: {decided.reason}"}


def _decided(wanted: LLMService, seen: Seen) -> Rollout | None:
    deployment = _deployment(wanted, seen)
    kept = ((deployment or {}).get("metadata", {}).get("annotations") or {}).get(names.ROLLOUT, "")
    spec_hash, _, rest = str(kept).partition(" ")
    strategy, _, reason = rest.partition(": ")
    if spec_hash != revision.hash_of(wanted) or strategy not in ("Surge", "Recycle"):
        return None
    return Rollout("Surge" if strategy == "Surge" else "Recycle", reason, True)


def _runs_another(wanted: LLMService, seen: Seen) -> bool:
    deployment = _deployment(wanted, seen)
    if deployment is None or not deployment.get("status", {}).get("replicas"):
        return False
    return revisions.hash_label(deployment) != revision.hash_of(wanted)


def _deployment(wanted: LLMService, seen: Seen) -> Object | None:
    return seen.child("Deployment", names.child(wanted.name))


def _waits_in_vain(wanted: LLMService, seen: Seen, now: datetime) -> bool:
    return any(
        (now - since).total_seconds() >= PATIENCE
        for since in _unschedulable_since(revision.pods_of(wanted, seen.pods))
    )


def due_in(wanted: LLMService, seen: Seen, now: datetime) -> float | None:
    """Seconds until a spare replica has waited long enough."""
    decided = _decided(wanted, seen)
    if decided is None or decided.strategy != "Surge":
        return None
    waits = [
        PATIENCE - (now - since).total_seconds()
        for since in _unschedulable_since(revision.pods_of(wanted, seen.pods))
    ]
    return max(0.0, min(waits)) if waits else None


def _unschedulable_since(pods: Iterable[Object]) -> Iterable[datetime]:
    for pod in pods:
        for condition in pod.get("status", {}).get("conditions") or ():
            waiting = condition.get("type") == "PodScheduled" and condition.get("status") == "False"
            if waiting and condition.get("reason") == "Unschedulable" and condition.get("lastTransitionTime"):
                yield datetime.fromisoformat(str(condition["lastTransitionTime"]))
