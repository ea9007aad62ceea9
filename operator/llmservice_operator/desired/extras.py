"""The children around the workload: policy, budget, scaler, route, monitor. Some of their kinds a cluster may lack."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from llmservice_operator.api.spec import LLMService
from llmservice_operator.desired import autoscaler, disruption, monitor, network, route
from llmservice_operator.desired.autoscaler import SCALED_OBJECT
from llmservice_operator.desired.monitor import POD_MONITOR
from llmservice_operator.desired.route import HTTP_ROUTE

OPTIONAL = frozenset({POD_MONITOR, HTTP_ROUTE, SCALED_OBJECT})  # not of Kubernetes itself


def children(
    wanted: LLMService, served: frozenset[str], operator_namespace: str, hub_endpoint: str | None = None
) -> tuple[dict[str, Any], ...]:
    """Those that are wanted and whose kind is served, in the order in which they are applied.

    ``served`` are the kinds that the API server has; Kubernetes' own need not be among them.
    """
    always = (network.policy(wanted, operator_namespace, hub_endpoint), disruption.budget(wanted))
    scaler = autoscaler.horizontal(wanted)
    own = (child for child in (*always, scaler) if child is not None)
    return (*own, *(child for child in _optional(wanted) if child["kind"] in served))


def lacking(wanted: LLMService, served: frozenset[str]) -> tuple[str, ...]:
    """Kinds that the spec asks for by name and the cluster does not have."""
    asked = {child["kind"] for child in _optional(wanted)}
    if wanted.spec.monitoring.pod_monitor == "Auto":
        asked.discard(POD_MONITOR)
    return tuple(sorted(asked - served))


def _optional(wanted: LLMService) -> Iterator[dict[str, Any]]:
    for child in (autoscaler.scaled_object(wanted), route.http_route(wanted), monitor.pod_monitor(wanted)):
        if child is not None:
            yield child
