"""What scales the Deployment: a HorizontalPodAutoscaler, or KEDA's ScaledObject.

A suspended service has neither: its replicas are told to be 0, and a scaler that may wake from 0 would undo that.
"""

from __future__ import annotations

from typing import Any

from llmservice_operator.api import contract, names
from llmservice_operator.api.scaling import Autoscaling, Metric, ScalingRules
from llmservice_operator.api.spec import LLMService
from llmservice_operator.desired import metadata

SCALED_OBJECT = "ScaledObject"

# An engine takes minutes to start, so replicas go slowly and come at once.
_UP = {"selectPolicy": "Max", "stabilizationWindowSeconds": 0}
_DOWN = {"stabilizationWindowSeconds": 300}

_LONGEST_GENERATED = 58  # of a pod's name, before the five characters that make it unique
_LONGEST_HASH = 10  # of a ReplicaSet's template

# Totals over the replicas, as in contract.SCALING_METRICS.
_QUERIES: dict[Metric, str] = {
    "WaitingRequests": "sum(vllm:num_requests_waiting{%s})",
    "InFlightRequests": "sum(vllm:num_requests_waiting{%s}) + sum(vllm:num_requests_running{%s})",
    "KVCachePercent": "100 * sum(vllm:kv_cache_usage_perc{%s})",
}


def horizontal(wanted: LLMService) -> dict[str, Any] | None:
    """For backend HPA."""
    scaling = wanted.spec.autoscaling
    if scaling is None or scaling.backend != "HPA" or wanted.spec.suspend:
        return None
    name = names.child(wanted.name)
    described = {"apiVersion": names.API_VERSION, "kind": names.KIND, "name": wanted.name}
    metric = {
        "type": "Object",
        "object": {
            "describedObject": described,
            "metric": {"name": contract.SCALING_METRICS[scaling.metric]},
            "target": {"type": "AverageValue", "averageValue": str(scaling.goal)},
        },
    }
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": metadata.of(wanted, name),
        "spec": {
            "behavior": _behavior(scaling),
            "maxReplicas": scaling.max_replicas,
            "metrics": [metric],
            "minReplicas": scaling.min_replicas,
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
        },
    }


def scaled_object(wanted: LLMService) -> dict[str, Any] | None:
    """For backend KEDA."""
    scaling = wanted.spec.autoscaling
    if scaling is None or scaling.backend != "KEDA" or wanted.spec.suspend:
        return None
    name = names.child(wanted.name)
    spec: dict[str, Any] = {
        "maxReplicaCount": scaling.max_replicas,
        "minReplicaCount": scaling.min_replicas,
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
        "triggers": _triggers(wanted, scaling),
        "advanced": {"horizontalPodAutoscalerConfig": {"behavior": _behavior(scaling)}},
    }
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": SCALED_OBJECT,
        "metadata": metadata.of(wanted, name),
        "spec": spec,
    }


def query(namespace: str, deployment: str, metric: Metric) -> str:
    """The metric's total over a Deployment's pods, in PromQL."""
    pods = f'namespace="{namespace}",pod=~"{pod_pattern(deployment)}"'
    return _QUERIES[metric].replace("%s", pods)


def pod_pattern(deployment: str) -> str:
    """A regular expression for the names of a Deployment's pods, which those of ``<deployment>-more`` do not match.

    A long name is cut when its pods are named, and then its beginning must do.
    """
    if len(deployment) + len("-") + _LONGEST_HASH + len("-") <= _LONGEST_GENERATED:
        return f"{deployment}-[a-z0-9]+-[a-z0-9]{{5}}"
    return f"{deployment[:_LONGEST_GENERATED]}.*"


def _triggers(wanted: LLMService, scaling: Autoscaling) -> list[dict[str, Any]]:
    keda = scaling.keda
    assert keda is not None, "the schema asks for it with this backend"
    if keda.triggers is not None:
        return [dict(trigger) for trigger in keda.triggers]
    assert keda.prometheus_address is not None, "the schema asks for one of the two"
    text = {
        "query": query(wanted.namespace, names.child(wanted.name), scaling.metric),
        "serverAddress": keda.prometheus_address,
        "threshold": str(scaling.goal),
    }
    return [{"type": "prometheus", "metricType": "AverageValue", "metadata": text}]


def _behavior(scaling: Autoscaling) -> dict[str, Any]:
    """A direction that is given is passed on as it is; one that is not is ours."""
    given = scaling.behavior
    up, down = (given.scale_up, given.scale_down) if given is not None else (None, None)
    return {"scaleDown": _rules(down) or _DOWN, "scaleUp": _rules(up) or _UP}


def _rules(given: ScalingRules | None) -> dict[str, Any]:
    if given is None:
        return {}
    return given.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_defaults=True)
