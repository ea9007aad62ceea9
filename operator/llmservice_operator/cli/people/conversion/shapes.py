"""Is an object as Kubernetes has it, as far as the conversion looks? Said by field, before anything is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from llmservice_operator.cli.people.conversion.notes import named

_OBJECTS = frozenset(
    {
        "metadata", "spec", "template", "labels", "annotations", "resources", "limits", "requests", "strategy",
        "rollingUpdate", "lifecycle", "preStop", "startupProbe", "livenessProbe", "readinessProbe", "valueFrom",
        "secretKeyRef", "configMapKeyRef", "persistentVolumeClaim", "ephemeral", "volumeClaimTemplate", "configMap",
        "scaleTargetRef", "behavior", "scaleUp", "scaleDown", "matchLabels", "secretRef", "target", "metric",
    }
)  # fmt: skip
_LISTS = frozenset(
    {"containers", "initContainers", "volumes", "volumeMounts", "env", "envFrom", "ports", "metrics", "items"}
)
_NUMBERS = frozenset(
    {
        "replicas", "minReplicas", "maxReplicas", "minReplicaCount", "maxReplicaCount", "minReadySeconds",
        "terminationGracePeriodSeconds", "initialDelaySeconds", "periodSeconds", "failureThreshold",
    }
)  # fmt: skip
_NEEDED = {
    "volumeMounts": ("name", "mountPath"), "env": ("name",), "volumes": ("name",), "containers": ("name",),
    "secretKeyRef": ("name",), "persistentVolumeClaim": ("claimName",), "scaleTargetRef": ("name",),
    "volumeClaimTemplate": ("spec",),
}  # fmt: skip
_READ = frozenset(
    {
        "Deployment", "Service", "PersistentVolumeClaim", "HorizontalPodAutoscaler", "ScaledObject",
        "PodDisruptionBudget",
    }
)  # fmt: skip


def problem(body: Mapping[str, Any]) -> str | None:
    """The first field that is of another shape; None where all is well, or the kind is none that is read."""
    if body["kind"] not in _READ:
        return None
    at = named(dict(body)) if isinstance(body.get("metadata"), Mapping) else str(body["kind"])
    found = next(_wrong(body, ""), None)
    return f"{at} {found}" if found is not None else None


def _wrong(value: Mapping[str, Any], path: str) -> Iterator[str]:
    for key, below in value.items():
        here = f"{path}.{key}" if path else str(key)
        if below is None or (key == "annotations" and not path):
            continue
        if key in _OBJECTS and not isinstance(below, Mapping):
            yield f"{here}: {below!r} is no object"
        elif key in _NUMBERS and (isinstance(below, bool) or not isinstance(below, int)):
            yield f"{here}: {below!r} is no whole number"
        elif key in _LISTS:
            yield from _items(str(key), below, here)
        elif isinstance(below, Mapping):
            yield from _lacking(str(key), below, here)
            yield from _wrong(below, here)


def _items(key: str, items: Any, path: str) -> Iterator[str]:
    if not isinstance(items, list) or not all(isinstance(item, Mapping) for item in items):
        yield f"{path}: must be a list of objects"
        return
    for number, item in enumerate(items):
        here = f"{path}[{item.get('name', number)}]"
        yield from _lacking(key, item, here)
        yield from _wrong(item, here)


def _lacking(key: str, value: Mapping[str, Any], path: str) -> Iterator[str]:
    for name in _NEEDED.get(key, ()):
        if not value.get(name) or (name != "spec" and not isinstance(value[name], str)):
            yield f"{path}: has no {name}, or one that is no text"
