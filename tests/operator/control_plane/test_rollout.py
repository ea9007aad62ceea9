"""A rollout of replicas with devices, on a real API server and scheduler: surge where one is free, else in place."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from llmservice_operator.desired import rollout

from tests.operator.control_plane import conftest, kube
from tests.operator.control_plane.conftest import CLAIM, Place
from tests.operator.control_plane.fleet import ACCOUNT, NAMESPACE, Fleet
from tests.operator.control_plane.kube import Kube

RESOURCE = "example.com/gpu"
ONE = {"count": 1, "resourceName": RESOURCE}
EDITED = {"maxModelLen": 128}
IN_PLACE = {"maxSurge": 0, "maxUnavailable": 1}


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
    # Kubernetes looks at a claim that waits every 15 s, or when it changes.
    change = {"metadata": {"annotations": {"example.com/volume": "made"}}}
    place.kube.patch("PersistentVolumeClaim", CLAIM, place.name, change)


def give(kubernetes: Kube, node: str, devices: int) -> None:
    amounts = {RESOURCE: str(devices), "cpu": "8", "memory": "32Gi", "pods": "110"}
    ready = {"type": "Ready", "status": "True", "reason": "Test"}
    status = {"capacity": amounts, "allocatable": amounts, "conditions": [ready]}
    change: dict[str, Any] = {"status": status}
    kubernetes.call("PATCH", f"/api/v1/nodes/{node}/status", change, "application/merge-patch+json")
    untainted = {"spec": {"taints": None}}
    kubernetes.call("PATCH", f"/api/v1/nodes/{node}", untainted, "application/merge-patch+json")


def serve(place: Place, **spec: Any) -> dict[str, Any]:
    """The only pod of a service that is Ready; the scheduler has given it the node."""
    bind_claim(place)
    place.apply(**spec)
    kube.eventually(lambda: _placed(place), what="the scheduler has given it a node")
    place.wait_ready()
    (pod,) = place.kube.list("Pod", place.name)
    return pod


def wait_rollout(place: Place, strategy: str, words: str, within: float = 15.0) -> None:
    def told() -> bool:
        found = (place.must("LLMService").get("status") or {}).get("rollout") or {}
        return found.get("strategy") == strategy and words in found["reason"]

    kube.eventually(told, within, f"{strategy}, {words}: {place.must('LLMService').get('status')}")


def wait_in_place(place: Place, old: dict[str, Any]) -> None:
    """Play the kubelet: the old pod goes when it is told to, and the new one gets its node."""
    name = old["metadata"]["name"]
    kube.eventually(lambda: _is_ending(place, name), what="the old pod is told to go")
    assert not [pod for pod in _others(place, name) if pod["spec"].get("nodeName")], "no room for two"
    place.kube.call("DELETE", kube.path("Pod", place.name, name), {"gracePeriodSeconds": 0})
    kube.eventually(lambda: _placed(place), what="the new pod has its node")
    place.wait_ready()


@pytest.mark.parametrize(
    ("devices", "strategy", "surge"),
    [(2, "Surge", 1), (1, "Recycle", 0)],
    ids=["one is free", "none is free"],
)
def test_auto_looks_at_free_devices_and_says_so(
    place: Place, operators: Fleet, node: str, devices: int, strategy: str, surge: int
) -> None:
    give(place.kube, node, devices)
    serve(place, accelerator=ONE)
    place.apply(accelerator=ONE, engine=EDITED)
    wait_rollout(place, strategy, "when the rollout began")
    rolling = place.must("Deployment")["spec"]["strategy"]["rollingUpdate"]
    assert rolling == {"maxSurge": surge, "maxUnavailable": 1 - surge}
    place.wait_ready()


@pytest.mark.full
def test_a_device_that_is_taken_meanwhile_turns_the_surge_into_recycling(
    place: Place, operators: Fleet, node: str
) -> None:
    give(place.kube, node, 2)
    serve(place, accelerator=ONE)
    place.apply(accelerator=ONE, engine=EDITED)
    wait_rollout(place, "Surge", "were free")
    give(place.kube, node, 1)
    for pod in place.kube.list("Pod", place.name):
        if pod["metadata"].get("labels", {}).get("pod-template-hash") and not _is_ready(pod):
            place.kube.delete("Pod", pod["metadata"]["name"], place.name)
    wait_rollout(place, "Recycle", "in vain", within=60)
    assert place.must("Deployment")["spec"]["strategy"]["rollingUpdate"] == IN_PLACE
    place.wait_ready()


def test_a_node_that_is_added_lets_the_next_rollout_surge(place: Place, operators: Fleet, node: str) -> None:
    give(place.kube, node, 1)
    old = serve(place, accelerator=ONE)
    place.apply(accelerator=ONE, engine=EDITED)
    wait_rollout(place, "Recycle", f"no node had 1 {RESOURCE} free")
    wait_in_place(place, old)
    give(place.kube, node, 2)
    place.apply(accelerator=ONE, engine={"maxModelLen": 256})
    wait_rollout(place, "Surge", "were free")


def test_recreate_ends_the_old_replicas_before_it_makes_new_ones(
    place: Place, operators: Fleet, node: str
) -> None:
    give(place.kube, node, 2)
    old = serve(place, accelerator=ONE, rollout={"strategy": "Recreate"})
    place.apply(accelerator=ONE, rollout={"strategy": "Recreate"}, engine=EDITED)
    wait_rollout(place, "Recreate", "as spec.rollout.strategy says")
    kube.eventually(lambda: _is_ending(place, old["metadata"]["name"]), what="the old pod is told to go")
    assert not _others(place, old["metadata"]["name"])
    wait_in_place(place, old)


def test_a_surge_that_was_asked_for_and_finds_no_device_names_the_way_out(
    place: Place, operators: Fleet, node: str
) -> None:
    give(place.kube, node, 1)
    old = serve(place, accelerator=ONE, rollout={"strategy": "Surge"})
    place.apply(accelerator=ONE, rollout={"strategy": "Surge"}, engine=EDITED)
    said = place.wait_reason("Unschedulable")["message"]
    for words in (f"Insufficient {RESOURCE}", "older replicas still serve", "set Auto or Recycle"):
        assert words in said
    assert not _is_ending(place, old["metadata"]["name"])
    place.apply(accelerator=ONE, engine=EDITED)  # Auto, as the message says
    wait_rollout(place, "Recycle", "no spare one may exist")
    wait_in_place(place, old)


@pytest.fixture
def confined(place: Place, whole_fleet: Fleet) -> Iterator[Place]:
    """An operator that serves one namespace and has rights in it alone."""
    whole_fleet.stop_all()
    place.kube.kubectl("delete", "clusterrolebinding", ACCOUNT)
    binding = [f"--clusterrole={ACCOUNT}", f"--serviceaccount={NAMESPACE}:{ACCOUNT}"]
    place.kube.kubectl("create", "rolebinding", ACCOUNT, *binding, "-n", place.name)
    try:
        whole_fleet.start(namespaces=(place.name,))
        whole_fleet.leader()
        yield place
    finally:
        whole_fleet.stop_all()
        conftest.install(place.kube, conftest.ROOT)


@pytest.mark.full
def test_where_nodes_may_not_be_seen_replicas_roll_in_place_and_that_is_said(
    confined: Place, node: str
) -> None:
    give(confined.kube, node, 1)
    old = serve(confined, accelerator=ONE)
    confined.apply(accelerator=ONE, engine=EDITED)
    wait_rollout(confined, "Recycle", "cannot be seen")
    wait_in_place(confined, old)


@pytest.mark.full
def test_replicas_without_devices_roll_in_place_where_a_spare_one_finds_no_room(
    place: Place, operators: Fleet, node: str
) -> None:
    give(place.kube, node, 0)
    most = {"requests": {"cpu": "6"}}  # of the node's 8
    old = serve(place, resources=most)
    place.apply(resources=most, engine=EDITED)
    wait_rollout(place, "Surge", "hold no devices")
    wait_rollout(place, "Recycle", "waited 30 s for room in vain", within=45)
    wait_in_place(place, old)


@pytest.mark.full
def test_an_edit_that_no_node_could_ever_run_leaves_the_old_replica_alone(
    place: Place, operators: Fleet, node: str
) -> None:
    give(place.kube, node, 2)
    old = serve(place, accelerator=ONE)
    nowhere = {"spec": {"nodeSelector": {"disk": "none-such"}}}
    place.apply(accelerator=ONE, template=nowhere)
    place.wait_reason("Unschedulable")
    time.sleep(rollout.PATIENCE + 3)
    wait_rollout(place, "Surge", "were free")
    assert not _is_ending(place, old["metadata"]["name"])


def _placed(place: Place) -> bool:
    return any(pod["spec"].get("nodeName") for pod in place.kube.list("Pod", place.name))


def _is_ready(pod: dict[str, Any]) -> bool:
    found = pod.get("status", {}).get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in found)


def _is_ending(place: Place, name: str) -> bool:
    pod = place.get("Pod", name)
    return pod is None or "deletionTimestamp" in pod["metadata"]


def _others(place: Place, name: str) -> list[dict[str, Any]]:
    return [pod for pod in place.kube.list("Pod", place.name) if pod["metadata"]["name"] != name]
