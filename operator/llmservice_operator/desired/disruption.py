"""How many replicas a node's drain may take at once."""

from __future__ import annotations

from typing import Any

from llmservice_operator.api import names
from llmservice_operator.api.spec import LLMService
from llmservice_operator.desired import metadata


def budget(wanted: LLMService) -> dict[str, Any] | None:
    """A PodDisruptionBudget, only where more than one replica may run: a single one could only block the drain."""
    if _most_replicas(wanted) < 2:
        return None
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata.of(wanted, names.child(wanted.name)),
        "spec": {
            "maxUnavailable": wanted.spec.availability.max_unavailable,
            "selector": {"matchLabels": names.selector(wanted.name)},
            # A replica that is not ready serves nobody: it must not hold up a node's drain.
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        },
    }


def _most_replicas(wanted: LLMService) -> int:
    if wanted.spec.suspend:
        return 0
    scaling = wanted.spec.autoscaling
    return scaling.max_replicas if scaling is not None else wanted.spec.replicas or 0
