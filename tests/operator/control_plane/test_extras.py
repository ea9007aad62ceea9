"""The children around the workload on a real API server with the optional kinds: taken, and kept as they were rendered.

A cluster of its own: kinds that come and go restart every operator that watches.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from llmservice_operator.api import compare, names, spec
from llmservice_operator.desired import extras
from llmservice_operator.live import kinds
from llmservice_operator.live.kinds import Kind

from e2e.cluster import launcher, optional_crds
from tests.operator.control_plane import conftest, kube
from tests.operator.control_plane.conftest import Place
from tests.operator.control_plane.fleet import Fleet
from tests.operator.control_plane.kube import Body, Kube

EVERYTHING = frozenset(kind.kind for kind in kinds.ALL)
NAMESPACE = "extras"
MONITORS = "podmonitors.monitoring.coreos.com"
LOOKS_EVERY_SECOND = (
    "-c",
    "from llmservice_operator.live import discovery; discovery.PERIOD = 1.0; discovery.SURE = 0.5; "
    "from llmservice_operator.cli import main; main()",
)


@pytest.fixture(scope="module")
def bare() -> Iterator[Kube]:
    """Kubernetes with our kind and no optional one."""
    name = f"test-extras-{os.getpid()}"
    made = conftest.prepared(launcher.up(name, "control-plane"))
    made.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    yield made
    launcher.down(name)


@pytest.fixture(scope="module")
def full(bare: Kube) -> Kube:
    """With the optional kinds too."""
    for name, file in optional_crds.ensure().items():
        install(bare, name, file)
    return bare


@pytest.fixture
def fleet(bare: Kube, tmp_path: Path) -> Iterator[Fleet]:
    made = Fleet(bare, tmp_path)
    yield made
    made.kill_all()


@pytest.fixture
def running(full: Kube, fleet: Fleet) -> Iterator[Place]:
    """A namespace, and an operator that leads."""
    fleet.start()
    fleet.leader()
    made = conftest.empty_place(full)
    made.claim()
    yield made
    full.delete("Namespace", made.name)


def test_operator_starts_anew_when_an_optional_kind_comes_or_goes(bare: Kube, fleet: Fleet) -> None:
    first = fleet.start(program=LOOKS_EVERY_SECOND)
    (absent,) = (line for line in first.log.read_text().splitlines() if "not served" in line)
    assert "podmonitors.monitoring.coreos.com/v1" in absent
    install(bare, MONITORS, optional_crds.ensure()[MONITORS])
    assert first.process.wait(timeout=30) == 1
    assert "podmonitors.monitoring.coreos.com/v1 is now served: a restart" in first.log.read_text()
    second = fleet.start(program=LOOKS_EVERY_SECOND)
    time.sleep(3)
    assert second.probe("healthz") == 200
    (absent,) = (line for line in second.log.read_text().splitlines() if "not served" in line)
    assert "podmonitors" not in absent
    bare.kubectl("delete", "crd", MONITORS)
    assert second.process.wait(timeout=30) == 1
    assert "podmonitors.monitoring.coreos.com/v1 is no longer served: a restart" in second.log.read_text()
    third = fleet.start(program=LOOKS_EVERY_SECOND)
    assert third.probe("readyz") == 200
    assert third.stop()[0] == 0


def test_autoscaling_brings_its_autoscaler_and_leaves_the_replicas_to_it(full: Kube, running: Place) -> None:
    running.apply(replicas=2)
    assert running.wait_for("Deployment")["spec"]["replicas"] == 2
    kube.eventually(lambda: child_of(running, kinds.DISRUPTION), what="the budget")
    assert child_of(running, kinds.AUTOSCALER) is None
    running.apply(replicas=None, autoscaling={"minReplicas": 2, "maxReplicas": 8})
    kube.eventually(lambda: child_of(running, kinds.AUTOSCALER), what="the autoscaler")
    kube.eventually(
        lambda: running.must("Deployment")["spec"]["replicas"] == 2, what="the autoscaler's least replicas"
    )
    full.patch(
        "Deployment", "chat", running.name, {"spec": {"replicas": 4}}, "scale"
    )  # as it does under load
    full.patch("LLMService", "chat", running.name, {"metadata": {"annotations": {"touched": "yes"}}})
    full.patch("LLMService", "chat", running.name, {"spec": {"expose": {"service": {"port": 9000}}}})
    kube.eventually(lambda: running.must("Service")["spec"]["ports"][0]["port"] == 9000, what="the edit")
    time.sleep(1)
    assert running.must("Deployment")["spec"]["replicas"] == 4
    running.apply(replicas=3)
    kube.eventually(lambda: child_of(running, kinds.AUTOSCALER) is None, what="no autoscaler")
    kube.eventually(lambda: running.must("Deployment")["spec"]["replicas"] == 3, what="our replicas")


def test_switching_autoscaling_on_takes_no_replica_away(running: Place) -> None:
    running.apply(replicas=3)
    running.wait_for("Deployment")
    running.apply(replicas=None, autoscaling={"maxReplicas": 8})
    kube.eventually(lambda: child_of(running, kinds.AUTOSCALER), what="the autoscaler")
    assert running.must("Deployment")["spec"]["replicas"] == 3


def test_from_one_backend_to_the_other_no_replica_is_taken_away(full: Kube, running: Place) -> None:
    """KEDA's kind is served here, and nobody acts on it."""
    keda = {"backend": "KEDA", "keda": {"prometheusAddress": "http://prometheus"}}
    running.apply(replicas=3)
    running.wait_for("Deployment")
    before = None
    for more in (keda, {}, keda, {"backend": "External"}, keda, None, keda):
        running.apply(replicas=None, autoscaling=None if more is None else {"maxReplicas": 8, **more})
        for kind, wanted in ((kinds.SCALED_OBJECT, more == keda), (kinds.AUTOSCALER, more == {})):
            kube.eventually(
                lambda kind=kind, wanted=wanted: bool(child_of(running, kind)) is wanted,  # type: ignore[misc]
                what=f"{kind.kind} {wanted}",
            )
        if before is None:
            full.patch("Deployment", "chat", running.name, {"spec": {"replicas": 5}}, "scale")
            before = running.must("Deployment")["metadata"]["generation"]
    time.sleep(1)
    after = running.must("Deployment")
    assert after["spec"]["replicas"] == 5
    assert after["metadata"]["generation"] == before, "not even for a moment: each change would count one"


def test_extra_children_follow_the_spec_and_are_written_once(full: Kube, running: Place) -> None:
    fields = {
        "networkPolicy": {"enabled": True},
        "expose": {"route": {"parentRefs": [{"name": "gate"}]}},
        "autoscaling": {
            "backend": "KEDA",
            "maxReplicas": 4,
            "keda": {"prometheusAddress": "http://prometheus"},
        },
    }
    extra = (kinds.NETWORK, kinds.DISRUPTION, kinds.ROUTE, kinds.MONITOR, kinds.SCALED_OBJECT)
    running.apply(replicas=None, **fields)
    for kind in extra:
        kube.eventually(lambda kind=kind: child_of(running, kind), what=kind.kind)  # type: ignore[misc]
    time.sleep(2)
    before = [child_of(running, kind) for kind in extra]
    full.patch("LLMService", "chat", running.name, {"metadata": {"annotations": {"touched": "yes"}}})
    time.sleep(2)
    assert [child_of(running, kind) for kind in extra] == before
    full.call("DELETE", kinds.MONITOR.path(running.name, "chat"))
    kube.eventually(lambda: child_of(running, kinds.MONITOR), what="the monitor is back")
    running.apply(monitoring={"podMonitor": "Disabled"})
    for kind in extra:
        kube.eventually(lambda kind=kind: child_of(running, kind) is None, what=f"no {kind.kind}")  # type: ignore[misc]


CASES: dict[str, dict[str, Any]] = {
    "autoscaling": {"autoscaling": {"minReplicas": 2, "maxReplicas": 8}},
    "a target that reads otherwise as a quantity": {"autoscaling": {"maxReplicas": 8, "target": 1000}},
    "autoscaling with rules": {
        "autoscaling": {
            "maxReplicas": 8,
            "metric": "KVCachePercent",
            "behavior": {
                "scaleUp": {
                    "selectPolicy": "Min",
                    "policies": [
                        {"type": "Percent", "value": 100, "periodSeconds": 15},
                        {"type": "Pods", "value": 4, "periodSeconds": 60},
                    ],
                },
                "scaleDown": {"selectPolicy": "Disabled"},
            },
        }
    },
    "KEDA with Prometheus": {
        "autoscaling": {
            "backend": "KEDA",
            "maxReplicas": 4,
            "metric": "InFlightRequests",
            "keda": {"prometheusAddress": "http://prometheus:9090"},
        }
    },
    "KEDA with triggers": {
        "autoscaling": {
            "backend": "KEDA",
            "minReplicas": 0,
            "maxReplicas": 4,
            "behavior": {"scaleDown": {"stabilizationWindowSeconds": 0}},
            "keda": {"triggers": [{"type": "cron", "metadata": {"timezone": "UTC", "desiredReplicas": "1"}}]},
        }
    },
    "replicas that a drain may take": {"replicas": 3, "availability": {"maxUnavailable": "50%"}},
    "replicas that no drain may take": {"replicas": 3, "availability": {"maxUnavailable": 0}},
    "a network policy": {"networkPolicy": {"enabled": True}},
    "a network policy with peers": {
        "networkPolicy": {
            "enabled": True,
            "from": [
                {"namespaceSelector": {}, "podSelector": {"matchLabels": {"app": "gateway"}}},
                {"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}},
            ],
        }
    },
    "a network policy with egress": {
        "networkPolicy": {"enabled": True},
        "model": {"source": {"hf": {"repo": "a/b", "endpoint": "http://mirror:8080"}}},
        "cache": {"mode": "Ephemeral", "size": "10Gi"},
    },
    "a route": {
        "expose": {
            "service": {"name": "web", "port": 80},
            "route": {
                "parentRefs": [
                    {"name": "gate", "namespace": "gateways", "sectionName": "https", "port": 443}
                ],
                "hostnames": ["chat.example.org", "*.chat.example.org"],
            },
        }
    },
    "a route and nothing more": {"expose": {"route": {"parentRefs": [{"name": "gate"}]}}},
    "a monitor with labels": {"monitoring": {"podMonitor": "Enabled", "labels": {"release": "prometheus"}}},
}


@pytest.mark.parametrize("fields", CASES.values(), ids=CASES.keys())
def test_extra_children_are_taken_and_kept_as_they_were_rendered(full: Kube, fields: dict[str, Any]) -> None:
    for child in children(fields):
        apply(full, child, dry=True)
        live = apply(full, child)
        assert compare.differs(child, live) is None
        again = apply(full, child)  # its controller may have written its status meanwhile
        assert again["metadata"].get("generation") == live["metadata"].get("generation")
        assert again["spec"] == live["spec"]


@pytest.mark.parametrize("fields", CASES.values(), ids=CASES.keys())
def test_the_schema_of_our_kind_takes_what_the_case_asks_for(full: Kube, fields: dict[str, Any]) -> None:
    full.kubectl("apply", "--dry-run=server", "-f", "-", given=yaml.safe_dump(manifest(fields)))


LOOSENED: dict[str, tuple[str, dict[str, Any]]] = {
    "another peer": ("networkPolicy", {"ingress": [{"from": [{"ipBlock": {"cidr": "0.0.0.0/0"}}]}]}),
    "any egress": ("networkPolicy", {"egress": [{}]}),
    "fewer pods": ("networkPolicy", {"podSelector": {"matchLabels": {"more": "label"}}}),
}


@pytest.mark.parametrize(("field", "change"), LOOSENED.values(), ids=LOOSENED.keys())
def test_a_network_policy_that_somebody_loosened_is_seen_to_differ(
    full: Kube, field: str, change: dict[str, Any]
) -> None:
    (policy,) = (child for child in children({field: {"enabled": True}}) if child["kind"] == "NetworkPolicy")
    live = apply(full, policy)
    patched = full.call("PATCH", path(policy), {"spec": change}, "application/merge-patch+json")
    assert patched is not None
    assert compare.differs(policy, live) is None
    assert compare.differs(policy, patched) is not None
    assert compare.differs(policy, apply(full, policy)) is None


# --- in short ------------------------------------------------------------------------------------------------
def manifest(fields: dict[str, Any]) -> Body:
    given = {"model": {"source": {"pvc": {"claimName": "models"}}}} | fields
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "metadata": {"name": "chat", "namespace": NAMESPACE},
        "spec": given,
    }


def children(fields: dict[str, Any]) -> tuple[Body, ...]:
    body = manifest(fields)
    wanted = spec.parse({**body, "metadata": {**body["metadata"], "uid": "u-1", "generation": 1}})
    made = extras.children(wanted, EVERYTHING, "llmservice-system")
    return tuple(_unowned(child) for child in made)


def _unowned(child: Body) -> Body:
    """Without its owner, which does not exist here: the collector would delete it."""
    metadata = {key: value for key, value in child["metadata"].items() if key != "ownerReferences"}
    return {**child, "metadata": metadata}


def apply(at: Kube, child: Body, *, dry: bool = False) -> Body:
    query = f"?fieldManager={names.MANAGER}&force=true" + ("&dryRun=All" if dry else "")
    done = at.call("PATCH", path(child) + query, child, "application/apply-patch+yaml")
    assert done is not None, f"{child['kind']} is not served"
    return done


def child_of(place: Place, kind: Kind) -> Body | None:
    return place.kube.call("GET", kind.path(place.name, "chat"))


def path(child: Body) -> str:
    return kinds.CHILDREN[child["kind"]].path(NAMESPACE, child["metadata"]["name"])


def install(at: Kube, name: str, file: Path) -> None:
    at.kubectl("apply", "--server-side", "-f", str(file))
    at.kubectl("wait", "--for=condition=Established", f"crd/{name}", "--timeout=30s")
