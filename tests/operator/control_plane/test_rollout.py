"""A rollout of replicas with devices, on a real API server and scheduler: surge where one is free, else in place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.operator.control_plane import kube
from tests.operator.control_plane.conftest import CLAIM, Place
from tests.operator.control_plane.fleet import Fleet
from tests.operator.control_plane.kube import Kube

RESOURCE = "example.com/gpu"
ONE = {"count": 1, "resourceName": RESOURCE}


@pytest.fixture
def node(kubernetes: Kube, place: Place) -> Iterator[str]:
    """A node that nobody runs, with devices to be given out."""
    name = f"devices-{place.name}"
    body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
    kubernetes.call("POST", "/api/v1/nodes", body)
    yield name
    kubernetes.call("DELETE", f"/api/v1/nodes/{name}")


def bind_claim(place: Place) -> None:
    """A volume for the claim, else the scheduler waits for it."""
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteMany"],
        "storageClassName": "",
        "claimRef": {"namespace": place.name, "name": CLAIM},
        "hostPath": {"path": "/nowhere"},
    }
    metadata = {"name": f"{place.name}-models"}
    place.kube.apply({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata, "spec": spec})


def give(kubernetes: Kube, node: str, devices: int) -> None:
    amounts = {RESOURCE: str(devices), "cpu": "8", "memory": "32Gi", "pods": "110"}
    ready = {"type": "Ready", "status": "True", "reason": "Test"}
    status = {"capacity": amounts, "allocatable": amounts, "conditions": [ready]}
    change: dict[str, Any] = {"status": status}
    kubernetes.call("PATCH", f"/api/v1/nodes/{node}/status", change, "application/merge-patch+json")
    untainted = {"spec": {"taints": None}}
    kubernetes.call("PATCH", f"/api/v1/nodes/{node}", untainted, "application/merge-patch+json")


@pytest.mark.parametrize(
    ("devices", "strategy", "surge"),
    [(2, "Surge", 1), (1, "Recycle", 0)],
    ids=["one is free", "none is free"],
)
def test_auto_looks_at_free_devices_and_says_so(
    place: Place, operators: Fleet, node: str, devices: int, strategy: str, surge: int
) -> None:
    give(place.kube, node, devices)
    bind_claim(place)
    place.apply(accelerator=ONE)
    kube.eventually(lambda: _placed(place), what="the scheduler has given it a node")
    place.wait_ready()
    place.apply(accelerator=ONE, engine={"maxModelLen": 128})
    kube.eventually(
        lambda: (
            place.must("LLMService")["status"]["rollout"]["strategy"] == strategy
            and "when the rollout began" in place.must("LLMService")["status"]["rollout"]["reason"]
        ),
        what="the strategy is told",
    )
    rolling = place.must("Deployment")["spec"]["strategy"]["rollingUpdate"]
    assert rolling == {"maxSurge": surge, "maxUnavailable": 1 - surge}
    place.wait_ready()


@pytest.mark.full
def test_a_device_that_is_taken_meanwhile_turns_the_surge_into_recycling(
    place: Place, operators: Fleet, node: str
) -> None:
    give(place.kube, node, 2)
    bind_claim(place)
    place.apply(accelerator=ONE)
    kube.eventually(lambda: _placed(place), what="the scheduler has given it a node")
    place.wait_ready()
    place.apply(accelerator=ONE, engine={"maxModelLen": 128})
    kube.eventually(
        lambda: place.must("LLMService")["status"]["rollout"]["strategy"] == "Surge", what="it surges"
    )
    give(place.kube, node, 1)
    for pod in place.kube.list("Pod", place.name):
        if pod["metadata"].get("labels", {}).get("pod-template-hash") and not _is_ready(pod):
            place.kube.delete("Pod", pod["metadata"]["name"], place.name)
    kube.eventually(
        lambda: "in vain" in place.must("LLMService")["status"]["rollout"]["reason"], 60, "it recycles"
    )
    assert place.must("Deployment")["spec"]["strategy"]["rollingUpdate"]["maxSurge"] == 0
    place.wait_ready()


def _placed(place: Place) -> bool:
    return any(pod["spec"].get("nodeName") for pod in place.kube.list("Pod", place.name))


def _is_ready(pod: dict[str, Any]) -> bool:
    found = pod.get("status", {}).get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in found)
