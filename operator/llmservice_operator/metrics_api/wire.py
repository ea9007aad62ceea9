"""The bodies of ``custom.metrics.k8s.io``, as API servers and autoscalers read them. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from llmservice_operator.api import contract, names

GROUP = contract.METRICS_GROUP
VERSIONS = contract.METRICS_VERSIONS
RESOURCE = f"{names.PLURAL}.{names.GROUP}"
METRICS = tuple(contract.SCALING_METRICS.values())

Body = dict[str, Any]

_REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
}


def groups() -> Body:
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group()]}


def group() -> Body:
    return {"kind": "APIGroup", "apiVersion": "v1"} | _group()


def resources(version: str) -> Body:
    """What there is to get. Never empty, or the API server would count the group as broken."""
    found = [
        {
            "name": f"{RESOURCE}/{metric}",
            "singularName": "",
            "namespaced": True,
            "kind": "MetricValueList",
            "verbs": ["get"],
        }
        for metric in METRICS
    ]
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{GROUP}/{version}",
        "resources": found,
    }


def value(version: str, namespace: str, name: str, metric: str, quantity: str, taken: datetime) -> Body:
    """One metric of one LLMService: a list of exactly one, for an autoscaler takes nothing else."""
    described = {
        "kind": names.KIND,
        "namespace": namespace,
        "name": name,
        "apiVersion": names.API_VERSION,
    }
    item: Body = {"describedObject": described, "timestamp": _time(taken), "value": quantity}
    if version == "v1beta1":
        item |= {"metricName": metric, "selector": None}
    else:
        item |= {"metric": {"name": metric, "selector": None}}
    return {
        "kind": "MetricValueList",
        "apiVersion": f"{GROUP}/{version}",
        "metadata": {},
        "items": [item],
    }


def refusal(code: int, message: str) -> Body:
    """A Status, which is how Kubernetes says no."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": _REASONS.get(code, "Unknown"),
        "code": code,
    }


def _group() -> Body:
    versions = list(_versions(VERSIONS))
    return {"name": GROUP, "versions": versions, "preferredVersion": versions[0]}


def _versions(given: Iterable[str]) -> Iterable[Body]:
    for version in given:
        yield {"groupVersion": f"{GROUP}/{version}", "version": version}


def _time(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
