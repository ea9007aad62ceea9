"""The figures of a status: of the model, its copy, its memory and its starts. None where there is nothing to say."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from llmservice_operator.api import conditions, names, revision
from llmservice_operator.api.planned import Plan
from llmservice_operator.api.seen import Object, Seen
from llmservice_operator.api.spec import LLMService

STEPS = 20  # of a copy's progress: status is not rewritten every second


def model(planned: Plan) -> dict[str, Any] | None:
    known = planned.model
    if known is None:
        return None
    told = {
        "revision": known.revision or None,
        "weightBytes": known.weight_bytes,
        "parameters": known.parameters,
        "dtype": known.dtype,
        "contextLength": known.context_length,
    }
    return {key: value for key, value in told.items() if value is not None}


def cache(wanted: LLMService, planned: Plan, seen: Seen) -> dict[str, Any] | None:
    if wanted.cache is None or wanted.claim_name is None:
        return None
    told: dict[str, Any] = {"claimName": wanted.claim_name}
    if planned.model is not None:
        told["bytesTotal"] = planned.model.bytes
        if planned.copied(wanted) and wanted.prefetches:
            told["bytesDone"] = planned.model.bytes
        elif seen.copied_bytes is not None:
            step = max(1, planned.model.bytes // STEPS)
            told["bytesDone"] = seen.copied_bytes // step * step
    return told


def memory(wanted: LLMService, planned: Plan, seen: Seen) -> dict[str, Any] | None:
    """The engine's own figures once it has told them for this template, else the planner's."""
    if seen.measured is not None:
        return dict(seen.measured)
    before = seen.status.get("memory") or {}
    same = (seen.status.get("startup") or {}).get("measuredFor") == revision.hash_of(wanted)
    if before.get("source") == "Measured" and same:
        return dict(before)
    found = planned.memory
    if found is None:
        return None
    if found.verdict == "Unknown":
        return {"verdict": "Unknown", "source": "Estimated"}
    return {
        "verdict": found.verdict,
        "weights": found.weights,
        "kvCache": found.kv_cache,
        "activations": found.activations,
        "overhead": found.overhead,
        "available": found.available,
        "kvTokens": found.kv_tokens,
        "source": "Estimated",
    }


def startup(wanted: LLMService, planned: Plan, seen: Seen) -> dict[str, Any]:
    """The deadline in force, and how long a start of this template really took: the first one that was seen counts,
    for a later Ready need not come from a start."""
    told: dict[str, Any] = {
        "deadlineSeconds": planned.budget.deadline_seconds,
        "basis": planned.budget.basis,
    }
    before = seen.status.get("startup") or {}
    spec_hash = revision.hash_of(wanted)
    if before.get("measuredFor") == spec_hash:
        took = before.get("lastLoadSeconds")
    else:
        found = [_load_seconds(pod) for pod in revision.pods_of(wanted, seen.pods)]
        took = max((seconds for seconds in found if seconds is not None), default=None)
    if took is not None:
        return told | {"lastLoadSeconds": took, "measuredFor": spec_hash}
    kept = {key: before[key] for key in ("lastLoadSeconds", "measuredFor") if key in before}
    return told | kept


def _load_seconds(pod: Object) -> int | None:
    """From the engine's first start to Ready; None where it is not ready or was restarted."""
    status = pod.get("status", {})
    ready = conditions.of(pod, "Ready")
    engine: Mapping[str, Any] = next(
        (found for found in status.get("containerStatuses") or () if found["name"] == names.ENGINE), {}
    )
    began = engine.get("state", {}).get("running", {}).get("startedAt")
    if ready.get("status") != "True" or not began or engine.get("restartCount"):
        return None
    took = datetime.fromisoformat(ready["lastTransitionTime"]) - datetime.fromisoformat(began)
    return max(0, round(took.total_seconds()))
