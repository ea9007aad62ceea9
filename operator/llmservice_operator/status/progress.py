"""What pods that have not failed are still waiting for, in a few words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from llmservice_operator.api import names
from llmservice_operator.api.seen import Object

_ONE_NODE_ONLY = frozenset({"ReadWriteOnce", "ReadWriteOncePod"})


def slowest(pods: Sequence[Object]) -> str:
    """The pod that has come least far, and how far: empty where every pod is ready or none is there."""
    found = [stage for pod in pods if (stage := _stage(pod)) is not None]
    return min(found)[1] if found else ""


def unshared(claim: Object | None, replicas: int) -> str:
    """A warning where a claim that one node only may mount has several replicas to feed."""
    modes = (claim or {}).get("spec", {}).get("accessModes") or ()
    if claim is None or replicas < 2 or not modes or not set(modes) <= _ONE_NODE_ONLY:
        return ""
    return f"claim {claim['metadata']['name']} is {modes[0]}: replicas on other nodes cannot mount it"


def _stage(pod: Object) -> tuple[int, str] | None:
    status, name = pod.get("status", {}), pod["metadata"]["name"]
    if pod["metadata"].get("deletionTimestamp") or status.get("phase") in {"Failed", "Succeeded"}:
        return None
    if any(
        found["type"] == "Ready" and found["status"] == "True" for found in status.get("conditions") or ()
    ):
        return None
    container = _container(status)
    waiting = container.get("state", {}).get("waiting", {}).get("reason")
    if waiting:
        return 1, f"pod {name}: {waiting}"
    if "running" not in container.get("state", {}):
        placed = pod.get("spec", {}).get("nodeName")
        return (1, f"pod {name}: ContainerCreating") if placed else (0, f"pod {name}: not on a node yet")
    if container.get("name") != names.ENGINE:
        return 2, f"pod {name}: running"
    if container.get("started"):
        return 3, f"pod {name}: healthy, not ready"
    return 2, f"pod {name}: loading the model"


def _container(status: Mapping[str, Any]) -> Mapping[str, Any]:
    """The engine, or a job's only container."""
    given: Sequence[Mapping[str, Any]] = status.get("containerStatuses") or ()
    return next((found for found in given if found["name"] == names.ENGINE), given[0] if given else {})
