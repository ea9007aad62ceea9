"""The CRD may come after the operator, and go before it."""

from __future__ import annotations

from tests.operator.control_plane import conftest, kube
from tests.operator.control_plane.audit import Audit
from tests.operator.control_plane.conftest import CRD, Place
from tests.operator.control_plane.fleet import Fleet
from tests.operator.control_plane.kube import Kube

NAME = "llmservices.serving.llmservice.dev"


def test_without_the_crd_it_waits_and_with_it_it_serves(kubernetes: Kube, operators: Fleet) -> None:
    leader = operators.leader()
    kubernetes.kubectl("delete", "crd", NAME)
    assert leader.process.wait(timeout=30) == 1  # a watch that ended for good ends the process
    operators.stop_all()

    waiting = operators.start(ready=False)
    kube.eventually(lambda: waiting.probe("healthz") == 200, what="the probes answer")
    assert waiting.probe("readyz") == 503
    kube.eventually(
        lambda: "is the CRD installed?" in waiting.log.read_text(), what="it says what is missing"
    )

    kubernetes.kubectl("apply", "--server-side", "-f", str(CRD))
    kube.eventually(lambda: waiting.probe("readyz") == 200, 30, "it is ready")
    place = conftest.empty_place(kubernetes)
    place.claim()
    place.apply()
    place.wait_for("Service")
    kubernetes.delete("Namespace", place.name)


def test_a_field_that_the_installed_crd_lacks_is_named_in_the_log(kubernetes: Kube, operators: Fleet) -> None:
    operators.stop_all()
    where = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/startup"
    kubernetes.kubectl("patch", "crd", NAME, "--type=json", f'-p=[{{"op":"remove","path":"{where}"}}]')
    try:
        replica = operators.start()
        kube.eventually(lambda: "lacks spec.startup" in replica.log.read_text(), 20, "the field is named")
    finally:
        kubernetes.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(CRD))
        operators.stop_all()


def test_it_serves_only_the_namespaces_that_it_was_given(
    kubernetes: Kube, place: Place, operators: Fleet
) -> None:
    operators.stop_all()
    other = conftest.empty_place(kubernetes)
    other.claim()
    operators.start(namespaces=(place.name,))
    operators.leader()
    other.apply()
    place.apply()
    place.wait_for("Service")
    place.wait_ready()
    assert other.get("Service") is None
    operators.stop_all()
    kubernetes.delete("Namespace", other.name)


def test_objects_that_went_with_the_crd_are_served_anew_when_they_come_back(
    kubernetes: Kube, place: Place, operators: Fleet, audit: Audit
) -> None:
    place.apply()
    place.wait_ready()
    old = place.must("Deployment")["metadata"]["uid"]
    ended = list(operators.replicas)
    kubernetes.kubectl("delete", "crd", NAME)
    for one in ended:
        assert one.process.wait(timeout=30) == 1, "a watch that ended for good ends the process"
    kube.eventually(lambda: place.get("Deployment") is None, 60, "the children go with the object")
    for _ in ended:  # as a kubelet does
        operators.start(ready=False)

    kubernetes.kubectl("apply", "--server-side", "-f", str(CRD))
    kube.eventually(lambda: all(one.probe("readyz") == 200 for one in operators.replicas[-2:]), 30, "ready")
    since = len(audit.writes(place.name))
    kube.eventually(
        lambda: place.kube.apply(place.service(), check=False).returncode == 0, 20, "objects are taken again"
    )
    place.wait_ready()
    assert place.must("Deployment")["metadata"]["uid"] != old
    for kind in ("Deployment", "Service", "ControllerRevision"):
        assert len(place.kube.list(kind, place.name)) == 1, kind
    made = [write.split()[1] for write in audit.writes(place.name)[since:] if "status" not in write]
    assert sorted(made) == ["controllerrevisions", "deployments", "services"]
    assert sum(one.metric("llmservice_operator_leader") for one in operators.replicas[-2:]) == 1
    operators.keep_two()
