"""How replicas are replaced: decided once for each new template, and again only where the decision cannot work out.

``Auto`` surges where a device is free, because then no request has to wait, and recycles in place where none is,
because a spare replica would wait for ever. Replicas without devices surge until a spare one has waited in vain. The
decision stands in an annotation of the Deployment, so that it holds until the rollout is over, whoever leads.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from llmservice_operator.api import conditions, names, revision
from llmservice_operator.api.planned import Plan, Rollout
from llmservice_operator.api.seen import Object, Seen
from llmservice_operator.api.spec import LLMService
from llmservice_operator.desired import revisions

PATIENCE = 30.0  # seconds that a spare replica may wait for room
_SHORT_OF_ROOM = ("Insufficient ", "Too many pods")  # the scheduler, of what older replicas may hold


def begins(wanted: LLMService, planned: Plan, seen: Seen) -> bool:
    """Must it be known now how many devices are free? Not while the new template still waits for its model."""
    if wanted.spec.rollout.strategy != "Auto" or not wanted.spec.accelerator.count:
        return False
    prepared = planned.copied(wanted) and not planned.forbids_pods(wanted)
    return prepared and _runs_another(wanted, seen) and _decided(wanted, seen) is None


def decide(wanted: LLMService, seen: Seen, now: datetime) -> Rollout:
    """The strategy for the spec as it is now, and why."""
    chosen = wanted.spec.rollout.strategy
    if chosen != "Auto":
        return Rollout(chosen, "as spec.rollout.strategy says")
    begun = _begun(wanted, seen)
    if begun.strategy == "Surge" and _waited(wanted, seen, now) >= PATIENCE:
        what = _devices(wanted) or "room"
        return Rollout("Recycle", f"a spare replica waited {PATIENCE:.0f} s for {what} in vain", True)
    return begun


def _begun(wanted: LLMService, seen: Seen) -> Rollout:
    """As it was decided when the rollout began; before one, as it would be now."""
    before, what = _decided(wanted, seen), _devices(wanted)
    if before is not None:
        return before
    if not what:
        return Rollout("Surge", "replicas hold no devices")
    if seen.free_is_hidden:
        hidden = f"whether {what} are free cannot be seen (no right to list nodes and all pods, or no answer)"
        return Rollout(
            "Recycle", f"{hidden}, so no spare replica is tried; strategy Surge would try one", True
        )
    if seen.free is None:
        return Rollout("Recycle", f"each replica holds {what}, and no spare one may exist")
    if seen.free >= 1:
        return Rollout("Surge", f"{what} for a spare replica were free when the rollout began", True)
    return Rollout("Recycle", f"no node had {what} free for a spare replica when the rollout began", True)


def _devices(wanted: LLMService) -> str:
    """``2 nvidia.com/gpu``; empty where a replica holds none."""
    device = wanted.spec.accelerator
    return f"{device.count} {device.resource_name}" if device.count else ""


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


def due_in(wanted: LLMService, seen: Seen, now: datetime) -> float | None:
    """Seconds until a spare replica has waited long enough; None where none waits."""
    if wanted.spec.rollout.strategy != "Auto" or _begun(wanted, seen).strategy != "Surge":
        return None
    waited = _waited(wanted, seen, now)
    return max(0.0, PATIENCE - waited) if waited > 0 else None


def _waited(wanted: LLMService, seen: Seen, now: datetime) -> float:
    """Seconds for which a spare replica has waited for what older ones may hold; 0 where none does."""
    new = revision.hash_of(wanted)
    hashes = [(pod["metadata"].get("labels") or {}).get(names.REVISION_LABEL, new) for pod in seen.pods]
    if all(found == new for found in hashes):
        return 0.0  # nothing would be had by ending older ones
    waits = _short_of_room_since(revision.pods_of(wanted, seen.pods))
    return max(((now - since).total_seconds() for since in waits), default=0.0)


def _short_of_room_since(pods: Iterable[Object]) -> Iterable[datetime]:
    for pod in pods:
        found = conditions.of(pod, "PodScheduled")
        waiting = found.get("status") == "False" and found.get("reason") == "Unschedulable"
        # A pod that no node would have (a wrong selector, say) is not helped by the end of an older one.
        short = any(words in found.get("message", "") for words in _SHORT_OF_ROOM)
        if waiting and short and found.get("lastTransitionTime"):
            yield datetime.fromisoformat(str(found["lastTransitionTime"]))
