"""A second cluster-wide install beside the first: one serves, the other one waits and says so."""

from __future__ import annotations

from pathlib import Path

from e2e.cluster.launcher import Cluster
from tests.operator.control_plane import conftest, kube
from tests.operator.control_plane.conftest import Place
from tests.operator.control_plane.fleet import ACCOUNT, IMAGE, NAMESPACE, Fleet
from tests.operator.control_plane.kube import Kube

OTHERS_NAME = "second-llmservice-operator"  # as the chart calls what the release "second" has
OTHERS_IMAGE = "registry.example/other:1"


def test_a_second_install_stays_idle_says_so_and_takes_over_when_the_first_ends(
    kubernetes: Kube, cluster: Cluster, place: Place, operators: Fleet, tmp_path: Path
) -> None:
    conftest.grant(kubernetes, cluster, "second", "second-system")
    second = Fleet(kubernetes, tmp_path, OTHERS_NAME, "second-system")
    try:
        other = second.start(OTHERS_IMAGE)
        kube.eventually(lambda: other.metric("llmservice_operator_idle") == 1, 20, "the second one is idle")
        assert f"{NAMESPACE}/{ACCOUNT}" in other.read("readyz")
        assert "Uninstall one of the two" in other.log.read_text()
        place.apply()
        assert _image(place) == IMAGE
        assert other.metric("llmservice_operator_leader") == 0

        operators.stop_all()
        kube.eventually(lambda: other.metric("llmservice_operator_leader") == 1, 20, "it takes over")
        place.apply("late")
        assert _image(place, "late") == OTHERS_IMAGE
        assert other.read("readyz") == "ok"
    finally:
        second.stop_all()
        second.kill_all()
        kubernetes.delete("Namespace", "second-system")


def _image(place: Place, name: str = "chat") -> str:
    template = place.wait_for("Deployment", name)["spec"]["template"]["spec"]
    return str(template["containers"][0]["image"])
