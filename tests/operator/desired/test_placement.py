"""Room on nodes for one more replica, as the scheduler would count it."""

from __future__ import annotations

from typing import Any

import pytest
from llmservice_operator.desired import placement

GPU = "nvidia.com/gpu"


def node(gpus: int = 4, name: str = "a", **fields: Any) -> dict[str, Any]:
    spec = {"taints": fields.pop("taints", []), "unschedulable": fields.pop("unschedulable", False)}
    conditions = [{"type": "Ready", "status": fields.pop("ready", "True")}]
    allocatable = {GPU: str(gpus), "cpu": "8", "memory": "32Gi"}
    return {
        "metadata": {"name": name, "labels": fields.pop("labels", {})},
        "spec": spec,
        "status": {"allocatable": allocatable, "conditions": conditions},
    }


def template(gpus: int = 1, **fields: Any) -> dict[str, Any]:
    resources = {"limits": {GPU: str(gpus), "memory": "8Gi"}, "requests": {"cpu": "500m"}}
    return {"containers": [{"name": "engine", "resources": resources}], **fields}


def pod(gpus: int, on: str = "a", phase: str = "Running") -> dict[str, Any]:
    return {"spec": template(gpus) | {"nodeName": on}, "status": {"phase": phase}}


TAINT = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("nodes", "pods", "given", "room"),
    [
        ([node(4)], [], template(1), 4),
        ([node(4)], [pod(3)], template(1), 1),
        ([node(4)], [pod(4)], template(1), 0),
        ([node(4)], [pod(4, phase="Succeeded")], template(1), 4),
        ([node(4)], [pod(3), pod(1, on="b")], template(2), 0),
        ([node(2), node(2, "b")], [], template(4), 0),
        ([node(8)], [], template(1), 4),  # memory is the limit
        ([node(4, unschedulable=True)], [], template(1), 0),
        ([node(4, ready="Unknown")], [], template(1), 0),
        ([node(4, taints=[TAINT])], [], template(1), 0),
        ([node(4, taints=[TAINT])], [], template(1, tolerations=[{"key": "gpu", "operator": "Exists"}]), 4),
        ([node(4, taints=[TAINT])], [], template(1, tolerations=[{"key": "gpu", "value": "no"}]), 0),
        ([node(4, taints=[TAINT])], [], template(1, tolerations=[{"operator": "Exists"}]), 4),
        ([node(4, taints=[TAINT | {"effect": "PreferNoSchedule"}])], [], template(1), 4),
        ([node(4)], [], template(1, nodeSelector={"zone": "x"}), 0),
        ([node(4, labels={"zone": "x"})], [], template(1, nodeSelector={"zone": "x"}), 4),
    ],
)
def test_room(nodes: Any, pods: Any, given: dict[str, Any], room: int) -> None:
    assert placement.room(nodes, pods, given) == room


@pytest.mark.parametrize(
    ("operator", "values", "admitted"),
    [
        ("In", ["l4"], True),
        ("In", ["h100"], False),
        ("NotIn", ["h100"], True),
        ("Exists", [], True),
        ("DoesNotExist", [], False),
        ("Gt", ["3"], False),
        ("Nonsense", [], False),
    ],
)
def test_required_node_affinity_counts(operator: str, values: list[str], admitted: bool) -> None:
    term = {"matchExpressions": [{"key": "device", "operator": operator, "values": values}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    given = template(1, affinity={"nodeAffinity": required})
    assert placement.admits(node(labels={"device": "l4"}), given) is admitted


def test_init_containers_count_by_their_maximum() -> None:
    init = [{"name": "prefetch", "resources": {"requests": {"memory": "20Gi"}}}]
    assert placement.room([node(4)], [], template(1, initContainers=init)) == 1
