"""What cannot be served is said, with the path or the reason; nothing else is disturbed; it heals."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.operator.control_plane import conftest, kube
from tests.operator.control_plane.audit import Audit
from tests.operator.control_plane.conftest import Place
from tests.operator.control_plane.fleet import Fleet
from tests.operator.control_plane.kube import Kube

PVC = {"pvc": {"claimName": "models"}}


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"model": {"source": {}}}, "spec.model.source"),
        ({"model": {"source": PVC | {"hf": {"repo": "org/name"}}}}, "spec.model.source"),
        ({"model": {"source": PVC}, "acelerator": {"count": 1}}, "spec.acelerator"),
        ({"model": {"source": PVC}, "accelerator": {"count": -1}}, "spec.accelerator.count"),
    ],
    ids=["no source", "two sources", "unknown field", "count of -1"],
)
def test_it_is_refused_at_apply_with_the_path(place: Place, spec: dict[str, Any], path: str) -> None:
    body = place.service() | {"spec": spec}
    done = place.kube.apply(body, check=False)
    assert done.returncode != 0
    assert path.rpartition(".")[2] in done.stderr
    assert path.removeprefix("spec.") in done.stderr
    assert place.get("LLMService") is None


def test_a_missing_claim_is_said_and_heals_when_it_is_made(kubernetes: Kube, operators: Fleet) -> None:
    place = conftest.empty_place(kubernetes)
    place.apply()
    said = place.wait_reason("ClaimNotFound")
    assert conftest.CLAIM in said["message"]
    assert place.get("Deployment") is None
    place.claim()
    place.wait_for("Deployment")
    place.wait_ready()


def test_a_bad_template_stalls_and_leaves_what_runs_alone(place: Place, operators: Fleet) -> None:
    place.apply()
    place.wait_ready()
    before = place.must("Deployment")["spec"]["template"]
    bad = {
        "spec": {"containers": [{"name": "engine", "volumeMounts": [{"name": "nowhere", "mountPath": "/x"}]}]}
    }
    place.apply(template=bad)
    said = place.wait_reason("InvalidTemplate", "Stalled")
    assert "nowhere" in said["message"]
    assert place.must("Deployment")["spec"]["template"] == before
    place.apply()
    place.wait_ready()
    assert kube.condition(place.must("LLMService"), "Stalled") == {}


def test_a_refused_write_is_not_repeated_at_every_event(place: Place, audit: Audit) -> None:
    bad = {
        "spec": {"containers": [{"name": "engine", "volumeMounts": [{"name": "nowhere", "mountPath": "/x"}]}]}
    }
    place.apply(template=bad)
    place.wait_reason("InvalidTemplate", "Stalled")
    writes = len(audit.writes(place.name))
    place.kube.patch("LLMService", "chat", place.name, {"metadata": {"annotations": {"touched": "yes"}}})
    place.kube.patch("Service", "chat", place.name, {"metadata": {"annotations": {"touched": "yes"}}})
    time.sleep(1.5)
    assert len(audit.writes(place.name)) == writes, audit.writes(place.name)[writes:]


@pytest.mark.parametrize("kind", ["Service", "Deployment"])
def test_a_strangers_child_of_the_same_name_is_never_overwritten(
    place: Place, operators: Fleet, kind: str
) -> None:
    made = _strangers(place, kind)
    place.apply()
    said = place.wait_reason("ChildConflict", "Stalled")
    assert kind in said["message"]
    assert 'StatefulSet "db"' in said["message"]
    now = place.must(kind)
    assert now["spec"] == made["spec"]
    assert now["metadata"].get("labels") == made["metadata"].get("labels")


def test_an_invalid_object_keeps_running_what_it_had(place: Place, operators: Fleet) -> None:
    """Past the schema, refused by the operator: a flag that the engine does not know."""
    place.apply()
    place.wait_ready()
    before = place.must("Deployment")["spec"]
    place.apply(engine={"args": ["--no-such-flag=1"]})
    said = place.wait_reason("InvalidSpec", "Stalled")
    assert "spec.engine.args" in said["message"]
    assert place.must("Deployment")["spec"] == before


def test_a_hundred_broken_objects_do_not_hold_up_a_good_one(place: Place, audit: Audit) -> None:
    broken = [
        place.service(f"broken-{number}", engine={"args": ["--no-such-flag=1"]}) for number in range(50)
    ]
    bad = {
        "spec": {"containers": [{"name": "engine", "volumeMounts": [{"name": "nowhere", "mountPath": "/x"}]}]}
    }
    refused = [place.service(f"refused-{number}", template=bad) for number in range(50)]
    place.kube.apply(*broken, *refused)
    started = time.monotonic()
    place.apply("good")
    place.wait_for("Service", "good")
    assert time.monotonic() - started < 5
    place.wait_ready("good")
    for body in (*broken, *refused):
        place.wait_reason(
            "InvalidSpec" if body in broken else "InvalidTemplate", "Stalled", body["metadata"]["name"]
        )
    settled = len(audit.writes(place.name))
    time.sleep(3)
    assert len(audit.writes(place.name)) == settled, audit.writes(place.name)[settled:]


def _strangers(place: Place, kind: str) -> dict[str, Any]:
    template = {
        "metadata": {"labels": {"app": "db"}},
        "spec": {"containers": [{"name": "db", "image": "registry.example/db:1"}]},
    }
    workload = {"selector": {"matchLabels": {"app": "db"}}, "template": template, "replicas": 0}
    owner_body = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"}}
    owner = place.kube.create(
        "StatefulSet", owner_body | {"spec": workload | {"serviceName": "db"}}, place.name
    )
    reference = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "name": "db",
        "uid": owner["metadata"]["uid"],
        "controller": True,
    }
    spec = {"ports": [{"port": 5432}], "selector": {"app": "db"}} if kind == "Service" else workload
    version = "v1" if kind == "Service" else "apps/v1"
    metadata = {"name": "chat", "ownerReferences": [reference]}
    return place.kube.create(
        kind, {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}, place.name
    )
