"""The hash that says whether a change of the spec changes the pods."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any

from llmservice_operator.api import names, quantities
from llmservice_operator.api.resources import Resources
from llmservice_operator.api.seen import Object
from llmservice_operator.api.spec import LLMService

_DIGITS = 10
_OF_THE_JOB = {"job", "prefetch", "access_mode", "reclaim_policy", "size", "storage_class_name"}
_NOT_IN_THE_TEMPLATE: dict[str, Any] = {
    **dict.fromkeys(("replicas", "suspend", "expose", "autoscaling", "availability"), True),
    **dict.fromkeys(("network_policy", "monitoring"), True),
    "accelerator": {"fit_policy", "memory_per_device"},
    "rollout": {"strategy", "max_surge", "max_unavailable", "min_ready"},
}


def hash_of(wanted: LLMService) -> str:
    """Of what feeds the pod template, and only that.

    A field that has its default counts as absent: an operator that knows more fields computes the same hash, so
    its upgrade restarts nothing. Quantities count by value.
    """
    left_out = _NOT_IN_THE_TEMPLATE
    if wanted.prefetches:  # what concerns the claim and the job alone
        left_out = left_out | {"cache": _OF_THE_JOB, "model": {"token_secret_ref"}}
    fed: dict[str, Any] = wanted.spec.model_dump(
        mode="json", by_alias=True, exclude_defaults=True, exclude=left_out
    )
    fed = {name: part for name, part in fed.items() if part != {}}
    resources = _resources(wanted.spec.resources)
    if resources:
        fed["resources"] = resources
    text = json.dumps(fed, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


def pods_of(wanted: LLMService, pods: Iterable[Object]) -> tuple[Object, ...]:
    """The pods that run the template of the spec as it is now."""
    found = hash_of(wanted)
    return tuple(
        pod for pod in pods if (pod["metadata"].get("labels") or {}).get(names.REVISION_LABEL) == found
    )


def _resources(given: Resources) -> dict[str, dict[str, str]]:
    sides = {"requests": given.requests, "limits": given.limits}
    return {
        side: {name: quantities.canonical(amount) for name, amount in amounts.items()}
        for side, amounts in sides.items()
        if amounts
    }
