"""Autoscalers of somebody else, and autoscaling switched on and off: nobody's replicas are reset on the way.

Kubernetes' own autoscaler's controller runs here; the metrics server does not.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.operator.control_plane import kube
from tests.operator.control_plane.conftest import Place
from tests.operator.control_plane.fleet import Fleet
from tests.operator.control_plane.kube import Body

SCALERS = "/apis/autoscaling/v2/namespaces/{}/horizontalpodautoscalers"


def foreign(place: Place, name: str, replicas: int) -> Body:
    """Somebody's autoscaler on our Deployment, that wants so many replicas at least and at most."""
    spec = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "chat"},
        "minReplicas": replicas,
        "maxReplicas": replicas,
        "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization",
                                                                                "averageUtilization": 80}}}],
    }  # fmt: skip
    made = place.kube.call("POST", SCALERS.format(place.name), {"metadata": {"name": name}, "spec": spec})
    assert made is not None
    return made


def scaler(place: Place, name: str = "chat") -> Body | None:
    return place.kube.call("GET", f"{SCALERS.format(place.name)}/{name}")


def scale(place: Place, replicas: int) -> None:
    """As an autoscaler does under load."""
    place.kube.patch("Deployment", "chat", place.name, {"spec": {"replicas": replicas}}, "scale")


def active(place: Place) -> Body:
    return kube.condition(place.get("LLMService"), "AutoscalingActive")


@contextmanager
def watched(place: Place, folder: Path) -> Iterator[list[int]]:
    """Every replica count that the Deployment has while the block runs; there once it has ended."""
    file, seen = folder / "replicas", list[int]()
    command = [str(place.kube.cluster.kubectl), f"--kubeconfig={place.kube.cluster.kubeconfig}"]
    command += [
        "get",
        "deployment",
        "chat",
        "-n",
        place.name,
        "--watch",
        "-o",
        r"jsonpath={.spec.replicas}{'\n'}",
    ]
    with file.open("w") as out:
        process = subprocess.Popen(command, stdout=out)
        try:
            kube.eventually(lambda: file.read_text().strip(), what="the watch has begun")
            yield seen
            last = str(place.must("Deployment")["spec"]["replicas"])
            place.kube.patch("Deployment", "chat", place.name, {"metadata": {"annotations": {"end": "yes"}}})
            kube.eventually(lambda: file.read_text().split()[-1] == last, what="the watch is at the end")
        finally:
            process.kill()
            process.wait()
    seen += map(int, file.read_text().split())


def test_a_foreign_autoscaler_of_our_childs_name_is_left_alone_and_named(
    place: Place, operators: Fleet
) -> None:
    place.apply(replicas=2)
    place.wait_ready()
    before = foreign(place, "chat", 2)
    place.apply(replicas=None, autoscaling={"minReplicas": 2, "maxReplicas": 4})
    said = kube.eventually(
        lambda: found if (found := active(place)).get("reason") == "ChildConflict" else None,
        what="it says so",
    )
    assert (
        'HorizontalPodAutoscaler "chat" exists and belongs to nobody that this operator knows'
        in said["message"]
    )
    assert "spec.autoscaling.backend: External" in said["message"]
    after = scaler(place)
    assert after is not None
    assert (after["spec"], after["metadata"].get("labels")) == (
        before["spec"],
        before["metadata"].get("labels"),
    )
    assert place.must("Deployment")["spec"]["replicas"] == 2
    assert place.must("LLMService")["status"]["availableReplicas"] == 2

    place.kube.call("DELETE", f"{SCALERS.format(place.name)}/chat")
    place.kube.patch("LLMService", "chat", place.name, {"spec": {"autoscaling": {"maxReplicas": 5}}})
    kube.eventually(
        lambda: ((scaler(place) or {}).get("spec") or {}).get("maxReplicas") == 5,
        what="an autoscaler of ours",
    )


def test_an_autoscaler_that_undoes_spec_replicas_is_named_and_without_the_field_it_has_its_way(
    place: Place, operators: Fleet
) -> None:
    place.apply(replicas=1)
    place.wait_ready()
    foreign(place, "theirs", 3)
    said = kube.eventually(
        lambda: found if (found := active(place)).get("reason") == "ReplicasContested" else None,
        40,
        "the other autoscaler is named",
    )
    assert 'HorizontalPodAutoscaler "theirs" also sets the replicas of Deployment chat' in said["message"]
    assert "remove spec.replicas" in said["message"]
    place.apply(replicas=None)
    kube.eventually(lambda: not active(place), what="nothing is left to say")
    kube.eventually(lambda: place.must("Deployment")["spec"]["replicas"] == 3, 40, "its way")
    place.kube.patch("LLMService", "chat", place.name, {"spec": {"engine": {"maxModelLen": 512}}})
    kube.eventually(lambda: "512" in str(place.must("Deployment")["spec"]["template"]), what="the edit")
    assert place.must("Deployment")["spec"]["replicas"] == 3


def test_two_autoscalers_on_one_deployment_are_said_from_ours(place: Place, operators: Fleet) -> None:
    place.apply(replicas=None, autoscaling={"maxReplicas": 3})
    place.wait_ready()
    foreign(place, "theirs", 3)

    def look() -> Body | None:
        place.kube.make_pods_ready(place.name, "chat")
        found = active(place)
        return found if found.get("reason") == "AmbiguousSelector" else None

    said = kube.eventually(look, 40, f"it says so: {active(place)}")
    assert "theirs" in said["message"]
    assert said["message"].endswith(
        "delete the other one, or keep it and set spec.autoscaling.backend: External"
    )


def test_switched_on_and_off_again_and_again_no_replica_is_taken_away(
    place: Place, operators: Fleet, tmp_path: Path
) -> None:
    place.apply(replicas=3)
    place.wait_ready()
    backends: tuple[dict[str, Any] | None, ...] = (
        {},
        None,
        {"backend": "External"},
        None,
        {},
        {"backend": "External"},
    )
    generation = place.must("LLMService")["metadata"]["generation"]
    with watched(place, tmp_path) as counts:
        for step, more in enumerate((*backends, *backends, None)):
            place.apply(replicas=None, autoscaling=None if more is None else {"maxReplicas": 9, **more})
            generation += 1
            kube.eventually(
                lambda wanted=generation: place.must("LLMService")["status"]["observedGeneration"] == wanted,
                what=f"step {step} is seen to",
            )
            if step == 0:
                scale(place, 5)
            is_ours = more == {}
            kube.eventually(
                lambda ours=is_ours: bool(scaler(place)) is ours, what=f"step {step}: the autoscaler"
            )
        time.sleep(1)
    assert set(counts) <= {3, 5}
    assert counts[-1] == 5
    assert counts == sorted(counts), "never back"

    with watched(place, tmp_path) as counts:
        place.apply(replicas=4)
        kube.eventually(lambda: place.must("Deployment")["spec"]["replicas"] == 4, what="our replicas")
        place.apply(replicas=None, autoscaling={"maxReplicas": 9})
        kube.eventually(lambda: scaler(place), what="the autoscaler")
        time.sleep(1)
    assert set(counts) == {5, 4}
