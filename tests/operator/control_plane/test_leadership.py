"""Two operators, one of which acts; whatever happens to it, the other goes on from there."""

from __future__ import annotations

import os
import signal
import time

import httpx
from llmservice_operator.api import names

from e2e.cluster.launcher import Cluster
from tests.operator.control_plane import conftest, kube
from tests.operator.control_plane.audit import Audit
from tests.operator.control_plane.conftest import Place
from tests.operator.control_plane.fleet import IMAGE, LEASE, NAMESPACE, Fleet
from tests.operator.control_plane.kube import Kube


def test_one_leads_and_both_are_healthy(operators: Fleet) -> None:
    leader = operators.leader()
    for one in operators.replicas:
        assert one.probe("healthz") == 200
        assert one.probe("readyz") == 200
        expected = 1.0 if one is leader else 0.0
        assert f"llmservice_operator_leader {expected}" in one.metrics()


def test_after_kill_9_of_the_leader_the_other_acts_within_15_seconds(place: Place, operators: Fleet) -> None:
    place.apply()
    place.wait_for("Service")
    leader = operators.leader()
    os.kill(leader.process.pid, signal.SIGKILL)
    leader.process.wait()
    killed = time.monotonic()
    place.kube.patch("LLMService", "chat", place.name, {"spec": {"expose": {"service": {"port": 9000}}}})
    kube.eventually(
        lambda: place.must("Service")["spec"]["ports"][0]["port"] == 9000, 15, "the edit is acted on"
    )
    print(f"kill -9 of the leader, an edit acted on after {time.monotonic() - killed:.1f} s")
    assert operators.leader() is not leader


def test_sigterm_releases_the_lease_and_ends_within_3_seconds(place: Place, operators: Fleet) -> None:
    place.apply()
    place.wait_for("Service")
    leader = operators.leader()
    code, seconds = leader.stop()
    ended = time.monotonic()
    assert code == 0, leader.log.read_text()[-2000:]
    assert seconds < 3
    assert operators.holder() != leader.identity
    place.kube.patch("LLMService", "chat", place.name, {"spec": {"expose": {"service": {"port": 9000}}}})
    kube.eventually(
        lambda: place.must("Service")["spec"]["ports"][0]["port"] == 9000, 4, "the edit is acted on"
    )
    print(f"SIGTERM: ended in {seconds:.2f} s, an edit acted on {time.monotonic() - ended:.1f} s later")


def test_a_restart_acts_on_an_edit_within_3_seconds(place: Place, operators: Fleet) -> None:
    place.apply()
    place.wait_for("Service")
    operators.stop_all()
    place.kube.patch("LLMService", "chat", place.name, {"spec": {"expose": {"service": {"port": 9000}}}})
    operators.start()
    kube.eventually(
        lambda: place.must("Service")["spec"]["ports"][0]["port"] == 9000, 3, "the edit is acted on"
    )


def test_the_last_one_leaves_a_lease_that_nobody_holds(kubernetes: Kube, operators: Fleet) -> None:
    operators.stop_all()
    for namespace in (NAMESPACE, names.CLUSTER_LEASE_NAMESPACE):
        assert kubernetes.must("Lease", LEASE, namespace)["spec"].get("holderIdentity", "") == ""


def test_a_leader_that_lost_the_lease_ends_itself(kubernetes: Kube, operators: Fleet) -> None:
    leader = operators.leader()
    kubernetes.patch("Lease", LEASE, NAMESPACE, {"spec": {"holderIdentity": "somebody-else"}})
    assert leader.process.wait(timeout=10) == 1
    assert "somebody-else" in leader.log.read_text()
    kubernetes.delete("Lease", LEASE, NAMESPACE)


def test_a_restart_with_nothing_changed_writes_nothing(place: Place, operators: Fleet, audit: Audit) -> None:
    place.apply()
    place.wait_ready()
    time.sleep(1.0)
    operators.stop_all()
    before, writes = place.versions(), len(audit.writes())
    operators.keep_two()
    time.sleep(3.0)
    assert len(audit.writes()) == writes, audit.writes()[writes:]
    assert place.versions() == before


def test_an_operator_with_another_engine_image_changes_no_template(place: Place, operators: Fleet) -> None:
    place.apply()
    place.wait_ready()
    before = place.must("Deployment")["metadata"]["generation"]
    operators.stop_all()
    operators.start(image="registry.example/engine:2")
    operators.leader()
    place.apply("newer")
    new = place.wait_for("Deployment", "newer")
    assert new["spec"]["template"]["spec"]["containers"][0]["image"] == "registry.example/engine:2"
    old = place.must("Deployment")
    assert old["spec"]["template"]["spec"]["containers"][0]["image"] == IMAGE
    assert old["metadata"]["generation"] == before
    operators.stop_all()


def test_a_namespace_goes_though_the_operator_has_gone(kubernetes: Kube, operators: Fleet) -> None:
    place = conftest.empty_place(kubernetes)
    place.claim()
    place.apply()
    place.wait_for("Service")
    operators.stop_all()
    for pod in kubernetes.list("Pod", place.name):  # no kubelet here to end them
        kubernetes.call(
            "DELETE", kube.path("Pod", place.name, pod["metadata"]["name"]), {"gracePeriodSeconds": 0}
        )
    kubernetes.delete("PersistentVolumeClaim", conftest.CLAIM, place.name)
    kubernetes.delete("Namespace", place.name)
    kube.eventually(lambda: kubernetes.get("Namespace", place.name) is None, 30, "the namespace is gone")


def test_at_rest_it_writes_nothing_and_reads_little(place: Place, audit: Audit) -> None:
    place.apply()
    place.wait_ready()
    time.sleep(1.0)
    writes = len(audit.writes())
    reads = len(audit.requests(frozenset({"get", "list"})))
    time.sleep(10.0)
    assert len(audit.writes()) == writes
    read = audit.requests(frozenset({"get", "list"}))[reads:]
    print(f"reads in 10 s at rest: {len(read)}")
    assert len(read) <= 20 / 6, read


def test_an_api_server_that_was_killed_is_found_again(
    place: Place, cluster: Cluster, operators: Fleet
) -> None:
    place.apply()
    place.wait_for("Service")
    os.kill(cluster.pid_of("kube-apiserver"), signal.SIGKILL)

    def edited() -> bool:
        change = {"spec": {"expose": {"service": {"port": 9000}}}}
        try:
            place.kube.patch("LLMService", "chat", place.name, change)
        except (httpx.TransportError, AssertionError):  # gone, or not all of it there yet
            return False
        return True

    kube.eventually(edited, 40, "the API server is back")
    back = time.monotonic()
    operators.keep_two()  # as a kubelet does: a leader may have lost its lease meanwhile
    kube.eventually(
        lambda: place.must("Service")["spec"]["ports"][0]["port"] == 9000, 30, "the edit is acted on"
    )
    print(f"API server back, an edit acted on after {time.monotonic() - back:.1f} s")
