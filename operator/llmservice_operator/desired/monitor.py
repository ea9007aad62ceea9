"""How a Prometheus of the Prometheus operator finds the engines."""

from __future__ import annotations

from typing import Any

from llmservice_operator.api import names
from llmservice_operator.api.spec import LLMService
from llmservice_operator.desired import metadata

POD_MONITOR = "PodMonitor"


def pod_monitor(wanted: LLMService) -> dict[str, Any] | None:
    """Whether the cluster serves the kind is not asked here."""
    if wanted.spec.monitoring.pod_monitor == "Disabled":
        return None
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": POD_MONITOR,
        "metadata": metadata.of(wanted, names.child(wanted.name), wanted.spec.monitoring.labels),
        "spec": {
            "podMetricsEndpoints": [{"path": "/metrics", "port": names.HTTP_PORT}],
            "selector": {"matchLabels": names.selector(wanted.name)},
        },
    }
