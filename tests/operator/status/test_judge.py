"""Objects in, status out."""

from __future__ import annotations

import copy
import dataclasses
from datetime import UTC, datetime, timedelta
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from llmservice_operator import status
from llmservice_operator.api import crd, revision, spec
from llmservice_operator.api.seen import Action, Applied, AppliedChild, Seen
from llmservice_operator.desired import plan

from tests.operator.desired import world
from tests.operator.status import pods

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
NEW: dict[str, Any] = {"observedGeneration": -1}
SCHEMA = crd.generate()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]
LATE = {
    "type": "Progressing",
    "status": "False",
    "reason": "ProgressDeadlineExceeded",
    "message": "has timed out",
}
QUOTA = {
    "type": "ReplicaFailure",
    "status": "True",
    "reason": "FailedCreate",
    "message": "exceeded quota: gpus",
}


def deployment(
    wanted: spec.LLMService, counts: tuple[int, int, int] = (0, 0, 0), **fields: Any
) -> dict[str, Any]:
    """As its controller has it: (replicas, updated, available)."""
    made = copy.deepcopy(world.rendered(wanted, world.seen())["Deployment"])
    made["spec"].setdefault("replicas", fields.pop("replicas", 1))
    made["metadata"]["generation"] = 2
    replicas, updated, available = counts
    made["status"] = {
        "observedGeneration": 2,
        "replicas": replicas,
        "updatedReplicas": updated,
        "readyReplicas": available,
        "availableReplicas": available,
        **fields,
    }
    return made


def judged(
    wanted: spec.LLMService,
    seen: Seen,
    applied: Applied | None = None,
    previous: dict[str, Any] = NEW,
    now: datetime = NOON,
) -> dict[str, Any]:
    seen = dataclasses.replace(seen, status=previous)
    found = status.judge(wanted, plan.for_spec(wanted, seen, now), seen, applied or Applied(), now)
    jsonschema.validate(found, SCHEMA)
    types = conditions(found)
    assert not {"Reconciling", "Stalled"} <= types.keys(), "never both"
    assert ("Ready", "True") not in {(kind, text) for kind, (text, _) in types.items()} or len(types) <= 2
    return found


def conditions(found: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {item["type"]: (item["status"], item["reason"]) for item in found["conditions"]}


def message(found: dict[str, Any]) -> str:
    text: str = found["conditions"][0]["message"]
    return text


def of_current_revision(wanted: spec.LLMService, pod: dict[str, Any]) -> dict[str, Any]:
    pod = copy.deepcopy(pod)
    pod["metadata"]["labels"]["serving.llmservice.dev/revision"] = revision.hash_of(wanted)
    return pod


def refused(kind: str, code: int | None, words: str) -> Applied:
    return Applied((AppliedChild(kind, "llama", Action.REFUSED, message=words, status_code=code),))


def failed(words: str) -> Applied:
    return Applied((AppliedChild("Deployment", "llama", Action.FAILED, message=words, status_code=503),))


W = world.wanted(accelerator={"count": 0})
TWO = world.wanted(accelerator={"count": 0}, replicas=2)
FAILING = of_current_revision(W, pods.reported())
LOADING = of_current_revision(W, pods.pod(containerStatuses=[pods.engine(state={"running": {}})]))
ONE_NODE = {"metadata": {"name": "models"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
STARVED = of_current_revision(W, pods.ended(message="no"))

TABLE: dict[str, tuple[spec.LLMService, Seen, Applied | None, dict[str, tuple[str, str]], str]] = {
    "nothing is there yet": (
        W, world.seen(), None,
        {"Ready": ("False", "DeploymentPending"), "Reconciling": ("True", "DeploymentPending"),
         "Available": ("False", "NoReplicaAvailable")}, "",
    ),
    "the claim is missing": (
        W, world.seen(claims=()), None,
        {"Ready": ("False", "ClaimNotFound"), "Reconciling": ("True", "ClaimNotFound"),
         "Available": ("False", "NoReplicaAvailable")},
        "PersistentVolumeClaim models does not exist in namespace team",
    ),
    "the pod starts": (
        W, world.seen(deployment(W, (1, 1, 0))), None,
        {"Ready": ("False", "ReplicasStarting"), "Reconciling": ("True", "ReplicasStarting"),
         "Available": ("False", "NoReplicaAvailable")}, "0 of 1 replica available",
    ),
    "all replicas are up": (
        TWO, world.seen(deployment(TWO, (2, 2, 2))), None,
        {"Ready": ("True", "ReplicasAvailable"), "Available": ("True", "ReplicaAvailable")}, "2 of 2 replicas",
    ),
    "one of two is up": (
        TWO, world.seen(deployment(TWO, (2, 2, 1))), None,
        {"Ready": ("False", "ReplicasStarting"), "Reconciling": ("True", "ReplicasStarting"),
         "Available": ("True", "ReplicaAvailable")}, "1 of 2 replicas available",
    ),
    "an autoscaler has made it three": (
        W, world.seen(deployment(W, (3, 3, 3), replicas=3)), None,
        {"Ready": ("True", "ReplicasAvailable"), "Available": ("True", "ReplicaAvailable")}, "3 of 3 replicas",
    ),
    "the rollout is under way": (
        TWO, world.seen(deployment(TWO, (2, 1, 2))), None,
        {"Ready": ("False", "RollingOut"), "Reconciling": ("True", "RollingOut"),
         "Available": ("True", "ReplicaAvailable")}, "1 of 2 replicas updated",
    ),
    "an old replica is still there": (
        W, world.seen(deployment(W, (2, 1, 2))), None,
        {"Ready": ("False", "ReplicasEnding"), "Reconciling": ("True", "ReplicasEnding"),
         "Available": ("True", "ReplicaAvailable")}, "1 more",
    ),
    "the deployment has an older template": (
        world.wanted(engine={"maxModelLen": 64}), world.seen(deployment(W, (1, 1, 1))), None,
        {"Ready": ("False", "DeploymentPending"), "Reconciling": ("True", "DeploymentPending"),
         "Available": ("True", "ReplicaAvailable")}, "",
    ),
    "the controller has not seen the edit": (
        W, world.seen(deployment(W, (1, 1, 1), observedGeneration=1)), None,
        {"Ready": ("False", "DeploymentPending"), "Reconciling": ("True", "DeploymentPending"),
         "Available": ("True", "ReplicaAvailable")}, "",
    ),
    "the engine reports that nothing will help": (
        W, world.seen(deployment(W, (1, 1, 0)), pods=[FAILING]), None,
        {"Ready": ("False", "InsufficientMemory"), "Stalled": ("True", "InsufficientMemory"),
         "Available": ("False", "NoReplicaAvailable")}, "pod llama-1: weights 8,000 MiB",
    ),
    "the pod crashes and may heal": (
        W, world.seen(deployment(W, (1, 1, 0)), pods=[STARVED]), None,
        {"Ready": ("False", "CrashLoopBackOff"), "Reconciling": ("True", "CrashLoopBackOff"),
         "Available": ("False", "NoReplicaAvailable")}, "exit code 1: no",
    ),
    "the pod crashes and time is up": (
        W, world.seen(deployment(W, (1, 1, 0), conditions=[LATE]), pods=[STARVED]), None,
        {"Ready": ("False", "CrashLoopBackOff"), "Stalled": ("True", "CrashLoopBackOff"),
         "Available": ("False", "NoReplicaAvailable")}, "exit code 1: no",
    ),
    "time is up and nobody says why": (
        W, world.seen(deployment(W, (1, 1, 0), conditions=[LATE])), None,
        {"Ready": ("False", "ProgressDeadlineExceeded"), "Stalled": ("True", "ProgressDeadlineExceeded"),
         "Available": ("False", "NoReplicaAvailable")}, "has timed out",
    ),
    "the new pod fails while the old one serves": (
        W, world.seen(deployment(W, (2, 1, 1)), pods=[FAILING, pods.ready("llama-0", "older")]), None,
        {"Ready": ("False", "InsufficientMemory"), "Stalled": ("True", "InsufficientMemory"),
         "Available": ("True", "ReplicaAvailable")}, "older replicas still serve",
    ),
    "an old pod fails while the new one comes up": (
        W, world.seen(deployment(W, (2, 1, 0)), pods=[{**pods.reported(), "metadata": {"name": "x", "labels": {}}}]),
        None,
        {"Ready": ("False", "ReplicasStarting"), "Reconciling": ("True", "ReplicasStarting"),
         "Available": ("False", "NoReplicaAvailable")}, "",
    ),
    "an evicted pod lies about, all is well": (
        W, world.seen(deployment(W, (1, 1, 1)),
                      pods=[of_current_revision(W, pods.pod("e", phase="Failed", reason="Evicted"))]), None,
        {"Ready": ("True", "ReplicasAvailable"), "Available": ("True", "ReplicaAvailable")}, "",
    ),
    "a quota stands in the way": (
        W, world.seen(deployment(W, (0, 0, 0), conditions=[QUOTA])), None,
        {"Ready": ("False", "FailedCreate"), "Reconciling": ("True", "FailedCreate"),
         "Available": ("False", "NoReplicaAvailable")}, "exceeded quota: gpus",
    ),
    "a quota stands in the way and time is up": (
        W, world.seen(deployment(W, (0, 0, 0), conditions=[QUOTA, LATE])), None,
        {"Ready": ("False", "FailedCreate"), "Stalled": ("True", "FailedCreate"),
         "Available": ("False", "NoReplicaAvailable")}, "exceeded quota: gpus",
    ),
    "the pod loads the model": (
        W, world.seen(deployment(W, (1, 1, 0)), pods=[LOADING, pods.ready("llama-0", "older")]), None,
        {"Ready": ("False", "ReplicasStarting"), "Reconciling": ("True", "ReplicasStarting"),
         "Available": ("False", "NoReplicaAvailable")}, "pod llama-1: loading the model",
    ),
    "two replicas share a claim of one node": (
        TWO, world.seen(deployment(TWO, (2, 2, 1)), claims=(ONE_NODE,)), None,
        {"Ready": ("False", "ReplicasStarting"), "Reconciling": ("True", "ReplicasStarting"),
         "Available": ("True", "ReplicaAvailable")}, "claim models is ReadWriteOnce",
    ),
    "somebody else owns the service": (
        W, world.seen(), refused("Service", 409, "belongs to StatefulSet db"),
        {"Ready": ("False", "ChildConflict"), "Stalled": ("True", "ChildConflict"),
         "Available": ("False", "NoReplicaAvailable")}, "Service llama: belongs to StatefulSet db",
    ),
    "the template is refused": (
        world.wanted(template={"spec": {"volumes": [{"name": "a", "nope": {}}]}}), world.seen(),
        refused("Deployment", 422, "spec.template.spec.volumes[2]: Required value"),
        {"Ready": ("False", "InvalidTemplate"), "Stalled": ("True", "InvalidTemplate"),
         "Available": ("False", "NoReplicaAvailable")}, "spec.template.spec.volumes[2]",
    ),
    "the API server was not there": (
        W, world.seen(deployment(W, (1, 1, 1))), failed("unreachable"),
        {"Ready": ("False", "ApplyFailed"), "Reconciling": ("True", "ApplyFailed"),
         "Available": ("True", "ReplicaAvailable")}, "unreachable",
    ),
    "suspended": (
        world.wanted(suspend=True), world.seen(deployment(world.wanted(suspend=True))), None,
        {"Ready": ("True", "Suspended")}, "suspended",
    ),
    "suspended, still ending": (
        world.wanted(suspend=True), world.seen(deployment(world.wanted(suspend=True), (1, 1, 1))), None,
        {"Ready": ("False", "ReplicasEnding"), "Reconciling": ("True", "ReplicasEnding"),
         "Available": ("True", "ReplicaAvailable")}, "1 more",
    ),
    "suspended before its claim is there": (
        world.wanted(suspend=True), world.seen(claims=()), None, {"Ready": ("True", "Suspended")}, "",
    ),
    "scaled to zero": (
        world.wanted(replicas=0), world.seen(deployment(world.wanted(replicas=0))), None,
        {"Ready": ("True", "ScaledToZero")}, "",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("wanted", "seen", "applied", "expected", "words"), TABLE.values(), ids=TABLE.keys())
def test_conditions_when(
    wanted: spec.LLMService,
    seen: Seen,
    applied: Applied | None,
    expected: dict[str, tuple[str, str]],
    words: str,
) -> None:
    found = judged(wanted, seen, applied)
    assert conditions(found) == expected
    assert words in message(found)
    assert found["observedGeneration"] == wanted.generation


def test_live_object_of_the_write_goes_before_the_store() -> None:
    stale, live = deployment(W, (1, 1, 1)), deployment(W, (1, 1, 1), observedGeneration=1)
    applied = Applied((AppliedChild("Deployment", "llama", Action.PATCHED, live=live),))
    assert conditions(judged(W, world.seen(stale), applied))["Ready"] == ("False", "DeploymentPending")


def test_at_rest_the_status_does_not_change() -> None:
    seen = world.seen(deployment(W, (1, 1, 0)), pods=[FAILING])
    first = judged(W, seen)
    assert judged(W, seen, previous=first, now=NOON + timedelta(hours=1)) == first


def test_failure_without_a_time_keeps_the_time_at_which_it_was_first_seen() -> None:
    pod = of_current_revision(W, pods.waiting("ErrImagePull", "not found"))
    seen = world.seen(deployment(W, (1, 1, 0)), pods=[pod])
    first = judged(W, seen)
    assert first["lastFailure"]["time"] == "2026-01-01T12:00:00Z"
    assert judged(W, seen, previous=first, now=NOON + timedelta(hours=1)) == first


def test_reason_clears_when_the_pods_recover_and_the_last_failure_stays() -> None:
    first = judged(W, world.seen(deployment(W, (1, 1, 0)), pods=[FAILING]))
    later = judged(
        W, world.seen(deployment(W, (1, 1, 1)), pods=[of_current_revision(W, pods.ready())]), previous=first
    )
    assert conditions(later) == {
        "Ready": ("True", "ReplicasAvailable"),
        "Available": ("True", "ReplicaAvailable"),
    }
    assert "MiB" not in message(later)
    assert later["lastFailure"]["code"] == "InsufficientMemory"


def test_service_that_was_ready_once_says_when_its_pod_dies() -> None:
    first = judged(W, world.seen(deployment(W, (1, 1, 1))))
    dead = of_current_revision(W, pods.ended(exitCode=137, reason="OOMKilled"))
    later = judged(W, world.seen(deployment(W, (1, 1, 0)), pods=[dead]), previous=first)
    assert conditions(later)["Ready"] == ("False", "OOMKilled")


def test_figures_of_the_engine_reach_the_last_failure() -> None:
    found = judged(W, world.seen(deployment(W, (1, 1, 0)), pods=[FAILING]))["lastFailure"]
    assert (found["requiredBytes"], found["availableBytes"]) == (9_000_000_000, 4_000_000_000)
    assert (found["pod"], found["exitCode"]) == ("llama-1", 1)


def test_status_tells_clients_where_and_by_which_names() -> None:
    wanted = world.wanted(
        model={"source": {"pvc": {"claimName": "models"}}, "servedNames": ["a/b", "c"]},
        expose={"service": {"name": "web", "port": 80}},
    )
    found = judged(wanted, world.seen())
    assert found["endpoint"] == {"url": "http://web.team.svc:80/v1", "models": ["a/b", "c"]}
    assert found["startup"] == {"deadlineSeconds": 320, "basis": "Derived"}
    assert found["selector"].startswith("app.kubernetes.io/name=llmservice,app.kubernetes.io/instance=llama")


def test_invalid_spec_stalls_with_its_path_and_leaves_what_runs_alone() -> None:
    seen = world.seen(deployment(W, (1, 1, 1)))
    before = judged(W, seen)
    body = world.body(engine={"args": ["--port", "9"]})
    body["metadata"]["generation"] = 2
    with pytest.raises(spec.InvalidSpec) as refusal:
        spec.parse(body)
    found = status.invalid(body, refusal.value, before, NOON, seen)
    jsonschema.validate(found, SCHEMA)
    assert conditions(found) == {
        "Ready": ("False", "InvalidSpec"),
        "Stalled": ("True", "InvalidSpec"),
        "Available": ("True", "ReplicaAvailable"),
    }
    assert message(found).startswith("spec.engine.args[0]: --port is set by the operator")
    assert found["observedGeneration"] == 2
    assert found["endpoint"] == before["endpoint"]
    assert status.invalid(body, refusal.value, found, NOON + timedelta(hours=1), seen) == found


def test_invalid_spec_that_never_ran_has_a_status_too() -> None:
    found = status.invalid(world.body(), spec.InvalidSpec("spec.x", "is wrong"), NEW, NOON)
    assert conditions(found) == {"Ready": ("False", "InvalidSpec"), "Stalled": ("True", "InvalidSpec")}
