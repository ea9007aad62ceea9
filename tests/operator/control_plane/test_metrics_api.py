"""The metrics server beside a real API server and a real autoscaler: it runs outside, behind a Service without a
selector; the engines are HTTP servers of this machine, whose addresses the pods are said to have."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.operator.control_plane import conftest, kube
from tests.operator.control_plane.conftest import Place
from tests.operator.control_plane.fleet import NAMESPACE, Fleet
from tests.operator.control_plane.kube import Body, Kube
from tests.operator.control_plane.metrics_server import (
    APISERVICES,
    NAME,
    VERSIONS,
    Engines,
    Server,
    api_service,
    available,
    install,
)

GROUP = "/apis/custom.metrics.k8s.io"
FAST = {
    "scaleUp": {"stabilizationWindowSeconds": 0},
    "scaleDown": {
        "stabilizationWindowSeconds": 0,
        "policies": [{"type": "Pods", "value": 10, "periodSeconds": 1}],
    },
}
SCALING = {"minReplicas": 1, "maxReplicas": 3, "metric": "WaitingRequests", "target": 4, "behavior": FAST}

OTHER = {
    "apiVersion": "apiregistration.k8s.io/v1",
    "kind": "APIService",
    "metadata": {"name": "v1beta1.custom.metrics.k8s.io"},
    "spec": {
        "group": "custom.metrics.k8s.io",
        "version": "v1beta1",
        "groupPriorityMinimum": 100,
        "versionPriority": 100,
        "service": {"namespace": "monitoring", "name": "prometheus-adapter"},
        "insecureSkipTLSVerify": True,
    },
}
IMPATIENT = (
    "-c",
    "from llmservice_operator.live import scaling; scaling.DEAD, scaling.LOOK = 2.0, 0.5; "
    "from llmservice_operator.cli import main; main()",
)


@pytest.fixture(scope="module")
def rights(kubernetes: Kube) -> Iterator[Kube]:
    install(kubernetes, NAMESPACE)
    yield kubernetes
    remove(kubernetes)  # the other tests' namespaces must go


@pytest.fixture(scope="module")
def whole_server(rights: Kube, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    made = Server(rights, tmp_path_factory.mktemp("metrics-api"))
    yield made
    made.kill_all()


@pytest.fixture
def server(whole_server: Server) -> Server:
    """One runs, and the API server sends the group to it."""
    whole_server.keep_one()
    return whole_server


@pytest.fixture
def engines(place: Place) -> Iterator[Engines]:
    made = Engines(place)
    yield made
    made.end()


def metric(place: Place, name: str = "num_requests_waiting", version: str = "v1beta2") -> Any:
    where = f"{GROUP}/{version}/namespaces/{place.name}/llmservices.serving.llmservice.dev/chat/{name}"
    return place.kube.call("GET", where)


def replicas(place: Place) -> int:
    return int(place.must("Deployment")["spec"]["replicas"])


def scaler(place: Place) -> Body:
    where = f"/apis/autoscaling/v2/namespaces/{place.name}/horizontalpodautoscalers/chat"
    return place.kube.call("GET", where) or {}


def scaled(place: Place, engines: Engines, wanted: int, within: float = 30) -> None:
    """Play the kubelet until there are so many replicas, all of them ready."""
    kube.eventually(
        lambda: engines.start() == wanted == replicas(place),
        within,
        f"{wanted} replicas: {(scaler(place).get('status') or {}).get('conditions')}",
    )


def test_its_api_services_become_available_and_discovery_lists_the_metrics(server: Server) -> None:
    for version in VERSIONS:
        listed = server.kube.call("GET", f"{GROUP}/{version}")
        assert listed is not None
        assert "llmservices.serving.llmservice.dev/num_requests_waiting" in {
            found["name"] for found in listed["resources"]
        }
    found = api_service(server.kube, "v1beta2")
    assert found is not None
    assert found["spec"]["caBundle"]
    assert not found["spec"].get("insecureSkipTLSVerify")
    assert [owner["kind"] for owner in found["metadata"]["ownerReferences"]] == ["ClusterRole"]
    assert "custom.metrics.k8s.io" in server.kube.kubectl("api-versions").stdout


def test_an_autoscaler_scales_from_1_to_3_holds_when_pods_go_silent_and_comes_back(
    place: Place, operators: Fleet, server: Server, engines: Engines
) -> None:
    place.apply(replicas=None, autoscaling=SCALING)
    place.wait_for("Deployment")
    scaled(place, engines, 1)

    engines.say(12)
    began = time.monotonic()
    scaled(place, engines, 3, within=60)  # the autoscaler's controller looks for new kinds every 30 s
    print(f"1 → 3 in {time.monotonic() - began:.1f} s")

    engines.say(4)  # twelve in all, as the target wants them: 3 × 4
    place.kube.patch("LLMService", "chat", place.name, {"metadata": {"annotations": {"touched": "yes"}}})
    time.sleep(4)
    assert replicas(place) == 3, "touching the object changes no replica count"

    engines.hush()
    engines.say(0)
    failed = kube.eventually(
        lambda: (
            found
            if (found := kube.condition(scaler(place), "ScalingActive")).get("status") == "False"
            else None
        ),
        20,
        "the autoscaler says that it has no metric",
    )
    assert "0 of 3 ready pods answer" in failed["message"]
    time.sleep(4)
    assert replicas(place) == 3

    engines.hush(silent=False)
    scaled(place, engines, 1)


def test_both_versions_say_the_same_of_one_object(
    place: Place, operators: Fleet, server: Server, engines: Engines
) -> None:
    place.apply(replicas=2)
    place.wait_for("Deployment")
    kube.eventually(lambda: engines.start() == 2, 20, "two pods")
    engines.say(3)
    newer = kube.eventually(lambda: metric(place), 10, "an answer")
    (item,) = newer["items"]
    assert (item["value"], item["metric"]["name"]) == ("6", "num_requests_waiting")
    assert item["describedObject"] == {
        "kind": "LLMService",
        "namespace": place.name,
        "name": "chat",
        "apiVersion": "serving.llmservice.dev/v1alpha1",
    }
    (item,) = metric(place, version="v1beta1")["items"]
    assert (item["value"], item["metricName"]) == ("6", "num_requests_waiting")
    assert metric(place, "num_requests_in_flight")["items"][0]["value"] == "10"
    assert metric(place, "kv_cache_usage_percent")["items"][0]["value"] == "100"


def test_who_has_no_right_to_metrics_gets_none(place: Place, server: Server) -> None:
    where = f"{GROUP}/v1beta2/namespaces/{place.name}/llmservices.serving.llmservice.dev/chat/num_requests_waiting"
    done = server.kube.kubectl("get", "--raw", where, "--as=somebody", check=False)
    assert "orbidden" in done.stderr
    missing = server.kube.kubectl("get", "--raw", where, check=False)
    assert f"no pod of LLMService {place.name}/chat is ready" in missing.stderr


def test_a_second_replica_shares_the_certificate_and_neither_writes_on(server: Server) -> None:
    def written() -> list[str]:
        found = [server.kube.call("GET", f"/api/v1/namespaces/{NAMESPACE}/secrets/{NAME}")]
        found += [api_service(server.kube, version) for version in VERSIONS]
        return [str((body or {})["spec" if "spec" in (body or {}) else "data"]) for body in found]

    before = written()
    second = server.start()
    time.sleep(2)
    assert written() == before
    server.running.remove(second)
    code, seconds = second.stop()
    assert code == 0, second.log.read_text()
    assert seconds < 6
    server.lead_to_last()
    assert api_service(server.kube, "v1beta2") is not None, (
        "a replica that goes takes nothing from the others"
    )
    available(server.kube)


def test_another_providers_api_service_is_left_alone_and_ours_make_room(server: Server) -> None:
    kubernetes = server.kube
    server.stop_all()
    remove(kubernetes)
    kubernetes.apply(OTHER)
    before = api_service(kubernetes, "v1beta1")
    replica = server.start()
    kube.eventually(
        lambda: (
            "served by another provider (v1beta1.custom.metrics.k8s.io of monitoring/prometheus-adapter)"
            in replica.log.read_text()
        ),
        20,
        "it says so",
    )
    assert before is not None
    after = api_service(kubernetes, "v1beta1")
    assert after is not None
    assert after["spec"] == before["spec"]
    assert api_service(kubernetes, "v1beta2") is None, "it would be preferred, and hide the other's"
    assert "llmservice_metrics_api_registered 0.0" in replica.metrics()
    assert replica.probe("readyz") == 200
    kubernetes.call("DELETE", f"{APISERVICES}/v1beta1.custom.metrics.k8s.io")
    server.stop_all()


def test_who_else_serves_the_metrics_is_said_by_name_until_they_go_and_ours_take_over(
    place: Place, operators: Fleet, server: Server, engines: Engines
) -> None:
    server.stop_all()
    remove(server.kube)
    server.kube.apply(OTHER)
    server.start()
    place.apply(replicas=None, autoscaling=SCALING)
    place.wait_for("Deployment")

    def active() -> Body:
        engines.start()
        return kube.condition(place.must("LLMService"), "AutoscalingActive")

    kube.eventually(
        lambda: (
            "served by another provider, monitoring/prometheus-adapter (APIService v1beta1.custom.metrics.k8s.io): "
            "add the rule for num_requests_waiting there" in str(active().get("message"))
        ),
        60,
        f"it says so: {active()}",
    )
    server.kube.call("DELETE", f"{APISERVICES}/v1beta1.custom.metrics.k8s.io")
    available(server.kube, within=40)  # it looks every 30 s
    kube.eventually(lambda: active().get("status") == "True", 60, f"it scales: {active()}")


def test_an_api_service_whose_servers_are_all_dead_is_removed_by_the_operator(
    server: Server, operators: Fleet
) -> None:
    """As when their nodes are lost: the Deployment is still wanted, and nobody could tell them to remove it."""
    (replica,) = server.running
    operators.stop_all()
    operators.start(program=IMPATIENT)
    time.sleep(3)
    assert api_service(server.kube, "v1beta2") is not None, "it serves"
    replica.process.kill()
    replica.process.wait()
    kube.eventually(
        lambda: [api_service(server.kube, version) for version in VERSIONS] == [None, None],
        60,
        "both are removed",
    )
    assert "which has led nowhere for" in operators.replicas[0].log.read_text()
    namespace_goes(server.kube, conftest.empty_place(server.kube).name)
    operators.stop_all()
    server.keep_one()  # and it registers again


def test_at_the_end_of_its_deployment_it_takes_its_api_services_along(server: Server) -> None:
    (replica,) = server.running
    server.kube.kubectl("scale", "deployment", NAME, "-n", NAMESPACE, "--replicas=0")
    code, _ = replica.stop()
    assert code == 0
    assert [api_service(server.kube, version) for version in VERSIONS] == [None, None]
    server.kube.kubectl("scale", "deployment", NAME, "-n", NAMESPACE, "--replicas=1")


def test_with_the_cluster_role_of_an_uninstall_the_api_services_go_though_the_server_is_dead(
    server: Server,
) -> None:
    (replica,) = server.running
    replica.process.send_signal(signal.SIGKILL)
    replica.process.wait()
    role = f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{NAME}"
    kept = server.kube.call("GET", role)
    assert kept is not None
    server.kube.call("DELETE", role)
    kube.eventually(lambda: api_service(server.kube, "v1beta2") is None, 60, "the garbage collector has come")
    namespace_goes(server.kube, conftest.empty_place(server.kube).name)
    kept["metadata"] = {"name": NAME, "labels": kept["metadata"]["labels"]}
    server.kube.call("POST", "/apis/rbac.authorization.k8s.io/v1/clusterroles", kept)


def test_with_its_namespace_the_api_services_go_and_no_namespace_hangs(
    server: Server, tmp_path: Path
) -> None:
    server.stop_all()
    remove(server.kube)
    going, other = conftest.empty_place(server.kube), conftest.empty_place(server.kube)
    install(server.kube, going.name)
    moved = Server(server.kube, tmp_path, going.name)
    try:
        replica = moved.keep_one()
        for pod in server.kube.list("Pod", going.name):  # no kubelet here to end them
            where = kube.path("Pod", going.name, pod["metadata"]["name"])
            server.kube.call("DELETE", where, {"gracePeriodSeconds": 0})
        namespace_goes(server.kube, going.name)
        assert [api_service(server.kube, version) for version in VERSIONS] == [None, None]
        namespace_goes(server.kube, other.name)
        assert replica.stop()[0] == 0, replica.log.read_text()
    finally:
        moved.kill_all()
        install(server.kube, NAMESPACE)


def remove(kubernetes: Kube) -> None:
    for version in VERSIONS:
        kubernetes.call("DELETE", f"{APISERVICES}/{version}.custom.metrics.k8s.io")


def namespace_goes(kubernetes: Kube, name: str) -> None:
    kubernetes.delete("Namespace", name)
    kube.eventually(lambda: kubernetes.get("Namespace", name) is None, 30, f"namespace {name} is gone")
