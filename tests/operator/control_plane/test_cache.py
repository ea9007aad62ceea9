"""A model from the hub on a real API server and job controller: looked up, copied once for all, then deployed."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from llmservice_operator.api.copies import Facts

from tests.operator.control_plane import kube
from tests.operator.control_plane.audit import Audit
from tests.operator.control_plane.conftest import Place
from tests.operator.control_plane.fleet import Fleet
from tests.operator.desired.test_preparing import LLAMA

HUB = {"source": {"hf": {"repo": "org/Tiny"}}}
FACTS = Facts("c0ffee", 900_000_000, 7, 880_000_000, 440_000_000, "bfloat16", 8192, LLAMA)
GATED = json.dumps({"code": "ModelGated", "message": "org/Tiny is gated", "hint": "accept its terms"})


@pytest.fixture
def hub(place: Place, operators: Fleet) -> Place:
    return place


def test_a_model_is_looked_up_then_copied_then_served(hub: Place, audit: Audit) -> None:
    hub.apply(model=HUB)
    hub.pod_of("resolve")
    hub.wait_reason("ResolvingModel", "ModelResolved")
    assert hub.get("Deployment") is None
    hub.end("resolve", FACTS.message())
    hub.wait_reason("Resolved", "ModelResolved")
    hub.pod_of("copy")
    said = hub.wait_reason("Copying", "CacheReady")
    assert "900.0 MB" in said["message"]
    assert hub.get("Deployment") is None, "no replica before the copy is there"
    hub.end("copy", "{}")
    deployment = hub.wait_for("Deployment")
    args = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    assert args[2].endswith("models--org--Tiny/snapshots/c0ffee")
    status = hub.wait_ready()["status"]
    assert status["model"]["revision"] == "c0ffee"
    assert status["cache"]["bytesDone"] == status["cache"]["bytesTotal"] == 900_000_000
    assert kube.condition(hub.get("LLMService"), "CacheReady")["reason"] == "Copied"
    kube.eventually(lambda: len(hub.kube.list("Job", hub.name)) == 1, what="the lookup's job is gone")
    time.sleep(1)
    writes = len(audit.writes(hub.name))
    time.sleep(3)
    assert len(audit.writes(hub.name)) == writes, audit.writes(hub.name)[writes:]


def test_two_services_of_one_source_share_claim_and_copy_and_the_claim_outlives_them(hub: Place) -> None:
    hub.apply("one", model=HUB)
    hub.end("resolve", FACTS.message())
    hub.end("copy", "{}")
    hub.wait_for("Deployment", "one")
    (claim,) = (one for one in hub.kube.list("PersistentVolumeClaim", hub.name) if _is_cache(one))
    hub.apply("two", model=HUB)
    lookup = kube.eventually(lambda: _pod_of_service(hub, "two"), what="two is looked up")
    hub.kube.end_pod(hub.name, lookup, FACTS.message())
    hub.wait_for("Deployment", "two")
    claims = [one for one in hub.kube.list("PersistentVolumeClaim", hub.name) if _is_cache(one)]
    assert [one["metadata"]["uid"] for one in claims] == [claim["metadata"]["uid"]]
    copies = [job for job in hub.kube.list("Job", hub.name) if _step(job) == "copy"]
    assert len(copies) == 1
    for name in ("one", "two"):
        hub.kube.delete("LLMService", name, hub.name)
    kube.eventually(lambda: not hub.kube.list("Job", hub.name), 20, "the jobs are gone with their users")
    assert hub.get("PersistentVolumeClaim", claim["metadata"]["name"]) is not None


def test_with_delete_the_claim_goes_with_the_last_user(hub: Place) -> None:
    hub.apply(model=HUB, cache={"reclaimPolicy": "Delete", "size": "1Gi"})
    claim = kube.eventually(lambda: _cache(hub), what="the claim is there")
    assert [owner["name"] for owner in claim["metadata"]["ownerReferences"]] == ["chat"]
    hub.kube.delete("LLMService", "chat", hub.name)
    name = claim["metadata"]["name"]
    kube.eventually(
        lambda: (hub.get("PersistentVolumeClaim", name) or {"metadata": {"deletionTimestamp": 1}})[
            "metadata"
        ].get("deletionTimestamp"),
        20,
        "the claim is going",
    )


def test_a_gated_model_says_so_is_tried_again_and_heals(hub: Place) -> None:
    hub.apply(model=HUB)
    hub.end("resolve", GATED, code=1)
    said = hub.wait_reason("ModelGated", "Stalled")
    assert "org/Tiny is gated" in said["message"]
    assert "accept its terms" in said["message"]
    hub.end("resolve", FACTS.message(), attempt=2)
    hub.wait_reason("Resolved", "ModelResolved")
    assert kube.condition(hub.get("LLMService"), "Stalled") == {}


def test_a_failed_copy_is_told_while_it_is_tried_again(hub: Place) -> None:
    hub.apply(model=HUB)
    hub.end("resolve", FACTS.message())
    small = {"code": "VolumeTooSmall", "message": "900 MB are needed, 100 MB are free", "requiredBytes": 900}
    hub.end("copy", json.dumps(small), code=1)
    hub.wait_reason("VolumeTooSmall", "CacheReady")
    hub.pod_of("copy", attempt=2)
    assert kube.condition(hub.get("LLMService"), "CacheReady")["reason"] == "VolumeTooSmall"
    hub.end("copy", "{}", attempt=2)
    hub.wait_for("Deployment")


def test_a_claim_that_its_class_does_not_let_grow_is_said_and_not_fought_over(
    hub: Place, audit: Audit
) -> None:
    hub.apply(model=HUB, cache={"size": "1Gi"})
    claim = kube.eventually(lambda: _cache(hub), what="the claim is there")
    hub.end("resolve", FACTS.message())
    hub.kube.apply(_volume(hub.name, claim["metadata"]["name"]))
    kube.eventually(lambda: (_cache(hub) or {})["status"]["phase"] == "Bound", what="the claim is bound")
    hub.apply(model=HUB, cache={"size": "2Gi"})
    hub.wait_reason("ExpansionRefused", "CacheReady")
    time.sleep(1)
    writes = len(audit.writes(hub.name))
    time.sleep(3)
    assert len(audit.writes(hub.name)) == writes, audit.writes(hub.name)[writes:]
    hub.apply(model=HUB, cache={"size": "1Gi"})
    hub.pod_of("copy")
    hub.wait_reason("Copying", "CacheReady")


def test_a_claim_of_the_users_own_is_waited_for_and_copied_into(hub: Place) -> None:
    hub.apply(model=HUB, cache={"mode": "Existing", "claimName": "mine"})
    hub.end("resolve", FACTS.message())
    assert "spec.cache.claimName" in hub.wait_reason("ClaimNotFound")["message"]
    hub.claim("mine")
    hub.end("copy", "{}")
    hub.wait_ready()
    assert _cache(hub) is None, "no claim is made beside it"


def test_an_edit_that_cannot_be_had_leaves_what_runs_alone(hub: Place) -> None:
    hub.apply(model=HUB)
    hub.end("resolve", FACTS.message())
    hub.end("copy", "{}")
    hub.wait_ready()
    before = hub.must("Deployment")["spec"]["template"]
    hub.apply(model={"source": {"hf": {"repo": "org/Nope"}}})
    nope = {"code": "ModelNotFound", "message": "org/Nope does not exist"}
    hub.end("resolve", json.dumps(nope), code=1)
    said = hub.wait_reason("ModelNotFound", "Stalled")
    assert "what runs goes on" in said["message"]
    assert hub.must("Deployment")["spec"]["template"] == before
    assert kube.condition(hub.get("LLMService"), "Available")["status"] == "True"


def test_what_cannot_fit_is_said_before_a_device_is_taken(hub: Place) -> None:
    device = {"count": 1, "memoryPerDevice": "8Gi", "fitPolicy": "Enforce"}
    facts = Facts("c0ffee", 16_100_000_000, 9, 16_060_000_000, 8_030_000_000, "bfloat16", 8192, LLAMA)
    hub.apply(model=HUB, accelerator=device)
    hub.end("resolve", facts.message())
    said = hub.wait_reason("InsufficientGPUMemory", "Stalled")
    assert hub.must("LLMService")["status"]["memory"]["verdict"] == "DoesNotFit"
    assert said["message"] == kube.condition(hub.get("LLMService"), "MemoryFits")["message"]
    hub.end("copy", "{}")
    time.sleep(2)
    assert hub.get("Deployment") is None
    hub.apply(model=HUB, accelerator=device | {"memoryPerDevice": "80Gi"})
    hub.wait_for("Deployment")


def _volume(namespace: str, claim: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"{namespace}-volume"},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteMany"],
            "storageClassName": "waiting",
            "claimRef": {"namespace": namespace, "name": claim},
            "hostPath": {"path": "/nowhere"},
        },
    }


def _is_cache(claim: dict[str, Any]) -> bool:
    return "serving.llmservice.dev/cache-key" in (claim["metadata"].get("labels") or {})


def _cache(place: Place) -> dict[str, Any] | None:
    return next((one for one in place.kube.list("PersistentVolumeClaim", place.name) if _is_cache(one)), None)


def _step(job: dict[str, Any]) -> str:
    return str(job["spec"]["template"]["spec"]["containers"][0]["args"][1])


def _pod_of_service(place: Place, name: str) -> str | None:
    wanted = {"app.kubernetes.io/instance": name, "app.kubernetes.io/component": "prefetch"}.items()
    for pod in place.kube.list("Pod", place.name):
        if wanted <= pod["metadata"]["labels"].items():
            return str(pod["metadata"]["name"])
    return None
