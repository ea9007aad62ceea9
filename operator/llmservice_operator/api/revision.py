"""The hash that says whether a change of the spec changes the pods."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from llmservice_operator.api import quantities
from llmservice_operator.api.spec import LLMService, Resources

_DIGITS = 10
_NOT_IN_THE_TEMPLATE = {"replicas", "suspend", "expose"}


def hash_of(wanted: LLMService) -> str:
    """Of what feeds the pod template, and only that.

    A field that has its default counts as absent: an operator that knows more fields computes the same hash, so
    its upgrade restarts nothing. Quantities count by value.
    """
    fed: dict[str, Any] = wanted.spec.model_dump(
        mode="json", by_alias=True, exclude_defaults=True, exclude=_NOT_IN_THE_TEMPLATE
    )
    resources = _resources(wanted.spec.resources)
    if resources:
        fed["resources"] = resources
    text = json.dumps(fed, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


def _resources(given: Resources) -> dict[str, dict[str, str]]:
    sides = {"requests": given.requests, "limits": given.limits}
    return {
        side: {name: quantities.canonical(amount) for name, amount in amounts.items()}
        for side, amounts in sides.items()
        if amounts
    }
