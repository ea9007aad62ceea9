"""The leader dies right after any one of its writes; the next one goes on from there, and nothing is made twice.

The tests play scheduler and kubelet, and take the lease off the dead leader, so that no case waits for it to run
out. ``make test`` takes one write of each flow, ``make test-full`` every one.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from e2e.cluster.launcher import Cluster
from tests.operator.control_plane import crashing, kube
from tests.operator.control_plane.audit import Audit
from tests.operator.control_plane.conftest import Place
from tests.operator.control_plane.fleet import LEASE, NAMESPACE, Fleet, Replica, alive
from tests.operator.control_plane.kube import Body, Kube
from tests.operator.control_plane.test_cache import FACTS, HUB

LIMIT = 60.0  # seconds
JOB = "batch.kubernetes.io/job-name"
CREATE_AT_LEAST = 9  # writes: two jobs, claim, revision, Deployment, Service, an old job's end, two statuses
EDIT_AT_LEAST = 3  # revision, Deployment, status


def cases(most: int, representative: int) -> list[Any]:
    """After which write to crash; the last cases may lie beyond the flow's end."""
    full = (pytest.mark.full,)
    return [pytest.param(one, marks=() if one == representative else full) for one in range(1, most + 1)]


class Doomed:
    """A leader that ends after its k-th write, and a follower that does not."""

    def __init__(self, kubernetes: Kube, leader: Replica) -> None:
        self._kubernetes = kubernetes
        self._leader = leader
        self._buried = False

    @property
    def crashed(self) -> bool:
        return self._leader.process.poll() == crashing.CODE

    def bury(self) -> None:
        """Once it is dead: take the lease off it, as the follower would after ten seconds."""
        if not self._buried and not alive(self._leader):
            self._kubernetes.delete("Lease", LEASE, NAMESPACE)
            self._buried = True

    def log(self) -> str:
        return self._leader.log.read_text()[-3000:]


Doom = Callable[[int], Doomed]


@pytest.fixture
def doom(kubernetes: Kube, whole_fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> Iterator[Doom]:
    """Replace the operators: the one that leads will crash after so many writes."""

    def make(writes: int) -> Doomed:
        whole_fleet.stop_all()
        monkeypatch.setenv(crashing.CRASH_AFTER, str(writes))
        leader = whole_fleet.start(program=crashing.PROGRAM)
        kube.eventually(lambda: whole_fleet.holder() == leader.identity, LIMIT, "the doomed one leads")
        whole_fleet.start()
        return Doomed(kubernetes, leader)

    yield make
    whole_fleet.stop_all()


@pytest.mark.parametrize("writes", cases(14, 6))
def test_a_leader_that_dies_while_it_creates_leaves_nothing_undone_or_twice(
    place: Place, cluster: Cluster, doom: Doom, writes: int
) -> None:
    doomed, audit = doom(writes), Audit(cluster.audit_log)
    place.apply(model=HUB)
    status = _until_ready(place, doomed)["status"]
    assert doomed.crashed or writes > CREATE_AT_LEAST, doomed.log()
    kube.eventually(lambda: len(place.kube.list("Job", place.name)) == 1, 20, "the lookup's job is gone")
    _settled(place, audit)
    jobs = [write for write in audit.writes(place.name) if write.startswith("create jobs")]
    assert len(jobs) == 2, jobs
    assert all(job.endswith("-1") for job in jobs), "first attempts, and no others"
    for kind in ("Deployment", "Service", "ControllerRevision"):
        assert len(place.kube.list(kind, place.name)) == 1, kind
    assert len(place.kube.list("PersistentVolumeClaim", place.name)) == 2, "the fixture's and the cache"
    assert status["model"]["revision"] == "c0ffee"
    reasons = {one["type"]: one["reason"] for one in status["conditions"]}
    assert reasons["ModelResolved"] == "Resolved"
    assert reasons["CacheReady"] == "Copied"
    assert not {"Reconciling", "Stalled"} & reasons.keys()


@pytest.mark.parametrize("writes", cases(5, 1))
def test_a_leader_that_dies_while_it_rolls_an_edit_out_leaves_one_more_revision(
    place: Place, operators: Fleet, cluster: Cluster, doom: Doom, writes: int
) -> None:
    place.apply()
    place.wait_ready()
    doomed, audit = doom(writes), Audit(cluster.audit_log)
    place.kube.patch("LLMService", "chat", place.name, {"spec": {"engine": {"maxModelLen": 4096}}})
    _until_ready(place, doomed)
    assert doomed.crashed or writes > EDIT_AT_LEAST, doomed.log()
    _settled(place, audit)
    assert "4096" in str(place.must("Deployment")["spec"]["template"])
    assert sorted(one["revision"] for one in place.kube.list("ControllerRevision", place.name)) == [1, 2]
    assert len(place.kube.list("Deployment", place.name)) == 1
    applied = [write.split()[1] for write in audit.writes(place.name)]
    assert applied.count("controllerrevisions") == applied.count("deployments") == 1, applied


def test_a_leader_that_dies_as_a_service_is_deleted_leaves_the_shared_cache_to_the_other(
    place: Place, operators: Fleet, doom: Doom
) -> None:
    cache = {"reclaimPolicy": "Delete", "size": "1Gi"}
    for name in ("one", "two"):
        place.apply(name, model=HUB, cache=cache)
    for name in ("one", "two"):
        _until_ready(place, None, name)
    assert _owners(place) == ["one", "two"]
    doomed = doom(1)  # the claim's owners
    place.kube.delete("LLMService", "one", place.name)
    kube.eventually(lambda: doomed.crashed, LIMIT, "it crashed")
    doomed.bury()
    kube.eventually(lambda: _owners(place) == ["two"], LIMIT, "the claim is the other's")
    _until_ready(place, doomed, "two")
    _none_left(place, "one")
    place.kube.delete("LLMService", "two", place.name)
    _none_left(place, "two")
    kube.eventually(lambda: _owners(place) is None, LIMIT, "the claim goes with its last user")


@pytest.mark.full
def test_a_leader_that_dies_as_it_removes_a_job_leaves_no_job(
    place: Place, operators: Fleet, doom: Doom
) -> None:
    place.apply(model=HUB)
    _until_ready(place, None)
    doomed = doom(1)
    place.kube.delete("LLMService", "chat", place.name)
    _none_left(place, "chat")

    def no_job() -> bool:
        doomed.bury()
        return not place.kube.list("Job", place.name)

    kube.eventually(no_job, LIMIT, "no job is left")
    assert _owners(place) == [], "the claim is retained"


# --- scheduler and kubelet -----------------------------------------------------------------------------------
def _until_ready(place: Place, doomed: Doomed | None, name: str = "chat") -> Body:
    """Play them until the service is Ready at its newest generation."""

    def look() -> Body | None:
        if doomed is not None:
            doomed.bury()
        _attend(place, name)
        body = place.get("LLMService", name)
        ready = kube.condition(body, "Ready")
        current = body is not None and ready.get("observedGeneration") == body["metadata"]["generation"]
        return body if current and ready.get("status") == "True" else None

    return kube.eventually(
        look, LIMIT, f"{name} is Ready: {(place.get('LLMService', name) or {}).get('status')}"
    )


def _attend(place: Place, name: str) -> None:
    """One turn: what waits is bound, a job's pod ends well, an engine's runs."""
    for pod in place.kube.list("Pod", place.name):
        going = "deletionTimestamp" in pod["metadata"]
        if JOB in pod["metadata"]["labels"] and not going and pod["status"].get("phase") == "Pending":
            looks_up = "resolve" in pod["spec"]["containers"][0]["args"]
            with contextlib.suppress(AssertionError):  # it went with its job meanwhile
                place.kube.bind(place.name, pod["metadata"]["name"])
                place.kube.end_pod(place.name, pod["metadata"]["name"], FACTS.message() if looks_up else "{}")
    place.kube.make_pods_ready(place.name, name)


def _settled(place: Place, audit: Audit) -> None:
    """Nothing is written any more."""
    time.sleep(1.0)
    writes = len(audit.writes(place.name))
    time.sleep(2.0)
    assert audit.writes(place.name)[writes:] == []


def _owners(place: Place) -> list[str] | None:
    """Of the cache's claim; None where it is gone or going."""
    for claim in place.kube.list("PersistentVolumeClaim", place.name):
        labels, metadata = claim["metadata"].get("labels") or {}, claim["metadata"]
        if "serving.llmservice.dev/cache-key" in labels and "deletionTimestamp" not in metadata:
            return [owner["name"] for owner in metadata.get("ownerReferences") or ()]
    return None


def _none_left(place: Place, name: str) -> None:
    instance = {"app.kubernetes.io/instance": name}.items()

    def none() -> bool:
        kinds = ("Deployment", "Service", "ControllerRevision")
        found = [body for kind in kinds for body in place.kube.list(kind, place.name)]
        return not any(instance <= body["metadata"]["labels"].items() for body in found)

    kube.eventually(none, LIMIT, f"no child of {name} is left")
