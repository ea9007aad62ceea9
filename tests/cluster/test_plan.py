"""What a cluster would run, told from the plan alone."""

from __future__ import annotations

import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from e2e.cluster import components, node, plan, prepare, state
from e2e.cluster.build import MODULES
from e2e.cluster.errors import ClusterError

BINARIES = {folder.name: Path("/bin") / folder.name for folder in MODULES.iterdir()}


@pytest.fixture(autouse=True)
def cache_root(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with tempfile.TemporaryDirectory(prefix="llms-") as root:  # pytest's own is too long for a socket
        monkeypatch.setenv("LLMSERVICE_CACHE", root)
        yield


def names(made: plan.Plan) -> list[set[str]]:
    return [{component.name for component in stage} for stage in made.stages]


def test_a_control_plane_has_four_processes_and_no_namespace() -> None:
    at = state.layout("test-plan")
    prepared = prepare.control_plane(at, BINARIES)
    made = plan.read(at.plan)
    assert names(made) == [{"etcd", "kube-apiserver"}, {"kube-controller-manager", "kube-scheduler"}]
    assert made.node is None
    assert prepared.url.startswith("https://127.0.0.1:")


def test_two_control_planes_share_no_port() -> None:
    first, second = (prepare.control_plane(state.layout(name), BINARIES).url for name in ("test-a", "test-b"))
    assert first != second


def test_every_kubeconfig_that_a_component_reads_is_written() -> None:
    at = state.layout("test-plan")
    prepare.control_plane(at, BINARIES)
    for stage in plan.read(at.plan).stages:
        for component in stage:
            for argument in component.argv:
                if argument.startswith("--kubeconfig="):
                    assert Path(argument.removeprefix("--kubeconfig=")).is_file()


def test_the_audit_log_has_one_event_a_request() -> None:
    assert prepare.AUDIT_POLICY["omitStages"] == ["RequestReceived", "ResponseStarted", "Panic"]


def test_two_nodes_have_cgroups_and_sockets_of_their_own() -> None:
    first, second = (state.layout(name) for name in ("test-a", "test-b"))
    assert node.kubelet(first)["cgroupRoot"] != node.kubelet(second)["cgroupRoot"]
    assert node.kubelet(first)["containerRuntimeEndpoint"] != node.kubelet(second)["containerRuntimeEndpoint"]


def test_containerd_configuration_is_toml_and_names_the_pause_image() -> None:
    at = state.layout("test-plan")
    read = tomllib.loads(node.containerd(at))
    settings = read["plugins"]["io.containerd.grpc.v1.cri"]
    assert settings["sandbox_image"] == node.PAUSE_IMAGE
    assert settings["restrict_oom_score_adj"] is True
    assert read["grpc"]["address"] == str(at.containerd_socket)


def test_the_pod_network_is_one_bridge_with_host_ports() -> None:
    network = components.pod_network()
    assert [plugin["type"] for plugin in network["plugins"]] == ["bridge", "portmap"]  # type: ignore[attr-defined]


def test_pods_ask_the_name_server_on_their_own_bridge() -> None:
    at = state.layout("test-plan")
    files = node.files(at)
    kubelet = yaml.safe_load(files["kubelet.yaml"])
    assert kubelet["clusterDNS"] == ["10.244.0.1"]
    assert "bind 10.244.0.1" in files["Corefile"]


@pytest.mark.parametrize("name", ["", "-a", "A", "a_b", "../up", "x" * 31])
def test_a_name_that_cannot_be_a_node_name_is_refused(name: str) -> None:
    with pytest.raises(ClusterError, match="lower-case"):
        state.layout(name)


def test_a_cache_too_deep_for_a_socket_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLMSERVICE_CACHE", "/" + "deep/" * 20)
    with pytest.raises(ClusterError, match="LLMSERVICE_CACHE"):
        state.layout("test-plan")


def test_the_link_of_a_cluster_is_read_from_its_plan() -> None:
    at = state.layout("test-plan")
    at.folder.mkdir(parents=True, exist_ok=True)
    inside = plan.Node("10.213.0.6/30", "10.213.0.5", "10.244.0.1/24", at.cgroup, str(at.folder / "kubelet"))
    plan.Plan(at.name, (), inside).write(at.plan)
    link = state.read_link(at)
    assert link is not None
    assert (link.subnet, link.device) == ("10.213.0.4/30", "llm-213-0-4")
