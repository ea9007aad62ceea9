"""The job that looks a model up before anything else: which commit, how many bytes, of what shape."""

from __future__ import annotations

import hashlib
import json
from datetime import datetime
from typing import Any

from llmservice_operator.api import attempts, copies, names, revision
from llmservice_operator.api.attempts import Turn
from llmservice_operator.api.copies import Facts
from llmservice_operator.api.defaults import Defaults
from llmservice_operator.api.seen import Object, Seen
from llmservice_operator.api.spec import LLMService
from llmservice_operator.desired import fetching, metadata, revisions

_SHARED = frozenset({"ReadWriteMany", "ReadOnlyMany"})


def applies(wanted: LLMService, seen: Seen) -> bool:
    """Is there something to look up?

    Always for a hub or a bucket. For a claim only where a verdict on memory hangs on it, and only where the claim
    can be mounted by a second pod: else the job would bind it to a node without devices, or wait for the engine.
    """
    if wanted.cache is not None:
        return True
    device, claim = wanted.spec.accelerator, seen.claims.get(wanted.claim_name or "")
    asked = device.fit_policy == "Enforce" or (device.fit_policy == "Warn" and device.memory_per_device)
    if not asked or claim is None:
        return False
    return bool(_SHARED & set(claim.get("spec", {}).get("accessModes") or ()))


def facts(wanted: LLMService, seen: Seen, now: datetime) -> Facts | None:
    """What is known of the model: frozen with the template of this spec, or as the job has just told it."""
    frozen = revisions.of_spec(wanted, seen)
    if frozen is not None and frozen.model is not None:
        return frozen.model
    current = turn(wanted, seen, now)
    if current is None or current.job is None or not current.complete:
        return None
    return _report(current.job, seen)


def turn(wanted: LLMService, seen: Seen, now: datetime) -> Turn | None:
    """Where the job stands; None where nothing is to be looked up (any more).

    A finished one whose report is gone is done again.
    """
    frozen = revisions.of_spec(wanted, seen)
    if not applies(wanted, seen) or (frozen is not None and frozen.model is not None):
        return None
    jobs = jobs_of(seen)
    lost = frozenset(
        str(job["metadata"].get("uid"))
        for job in jobs
        if attempts.ended(job) == "Complete" and _report(job, seen) is None
    )
    return attempts.turn(jobs, base(wanted), now, lost)


def job(wanted: LLMService, turn: Turn, defaults: Defaults) -> dict[str, Any]:
    """The job that should be there."""
    return dict(turn.job) if turn.job is not None else _job(wanted, turn.number, defaults)


def jobs_of(seen: Seen) -> tuple[Object, ...]:
    return tuple(child for (kind, _), child in sorted(seen.children.items()) if kind == "Job")


def base(wanted: LLMService) -> str:
    """The job's name without its number: another one for every spec that may change the answer."""
    identity = json.dumps(
        [revision.hash_of(wanted), wanted.spec.model.model_dump(mode="json")], sort_keys=True
    )
    return f"{wanted.name}-lookup-{hashlib.sha256(identity.encode()).hexdigest()[:8]}"


def _job(wanted: LLMService, number: int, defaults: Defaults) -> dict[str, Any]:
    made = metadata.of(wanted, attempts.name(base(wanted), number))
    made["labels"] = names.labels(wanted.name, names.PREFETCH)
    made["annotations"] = attempts.marks(base(wanted), number)
    pvc = wanted.spec.model.source.pvc
    volume = {"persistentVolumeClaim": {"claimName": pvc.claim_name, "readOnly": True}} if pvc else None
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": made,
        "spec": fetching.job_spec(wanted, defaults, "resolve", made["labels"], volume=volume),
    }


def _report(job: Object, seen: Seen) -> Facts | None:
    for pod in attempts.pods_of(job, seen.pods):
        for status in pod.get("status", {}).get("containerStatuses") or ():
            ended = status.get("state", {}).get("terminated") or {}
            found = copies.facts(ended.get("message", "")) if ended.get("exitCode") == 0 else None
            if found is not None:
                return found
    return None
