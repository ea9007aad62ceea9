"""What a person is told between two statuses."""

from __future__ import annotations

from typing import Any

import pytest
from llmservice_operator.status import news
from llmservice_operator.status.news import News

from tests.operator.desired import world
from tests.operator.status import pods
from tests.operator.status.test_judge import FAILING, NEW, W, deployment, judged

Status = dict[str, Any]


def status(*conditions: tuple[str, str, str, str], generation: int = 1, **fields: Any) -> Status:
    """Of (type, status, reason, message)."""
    found = [
        {"type": kind, "status": text, "reason": reason, "message": message, "observedGeneration": generation}
        for kind, text, reason, message in conditions
    ]
    return {"observedGeneration": generation, "conditions": found, **fields}


STARTING = status(
    ("Ready", "False", "ReplicasStarting", "0 of 1"), ("Reconciling", "True", "ReplicasStarting", "0 of 1")
)
UP = status(("Ready", "True", "ReplicasAvailable", "1 of 1"), ("Available", "True", "ReplicaAvailable", ""))
STUCK = status(
    ("Ready", "False", "Unschedulable", "no GPU"), ("Reconciling", "True", "Unschedulable", "no GPU")
)
LATE = status(("Ready", "False", "Unschedulable", "no GPU"), ("Stalled", "True", "Unschedulable", "no GPU"))
BAD = status(
    ("Ready", "False", "InvalidSpec", "spec.a: no"), ("Stalled", "True", "InvalidSpec", "spec.a: no")
)
WORSE = status(
    ("Ready", "False", "InvalidSpec", "spec.b: no"),
    ("Stalled", "True", "InvalidSpec", "spec.b: no"),
    generation=2,
)
LOOKING = status(
    ("Ready", "False", "ResolvingModel", "looking"), ("ModelResolved", "False", "ResolvingModel", "looking")
)
GATED = status(
    ("Ready", "False", "ModelGated", "accept"), ("Stalled", "True", "ModelGated", "accept"),
    ("ModelResolved", "False", "ModelGated", "accept"),
)  # fmt: skip
COPYING = status(
    ("Ready", "False", "Copying", "3 GiB"), ("ModelResolved", "True", "Resolved", "revision c0ffee"),
    ("CacheReady", "False", "Copying", "3 GiB"), model={"revision": "c0ffee"},
)  # fmt: skip
COPIED = status(
    ("Ready", "False", "ReplicasStarting", "0 of 1"), ("ModelResolved", "True", "Resolved", "revision c0ffee"),
    ("CacheReady", "True", "Copied", "on claim x"), model={"revision": "c0ffee"},
)  # fmt: skip
SCALES = ("AutoscalingActive", "True", "ValidMetricFound", "by the metric")
HOLDS = ("AutoscalingActive", "False", "FailedGetObjectMetric", "replicas hold")

TABLE: dict[str, tuple[Status, Status, list[News]]] = {
    "it is new": (NEW, STARTING, [News("Normal", "ReplicasStarting", "0 of 1")]),
    "it is up": (STARTING, UP, [News("Normal", "ReplicasAvailable", "1 of 1")]),
    "a count grows": (
        STARTING, status(("Ready", "False", "ReplicasStarting", "1 of 2")), [],
    ),
    "no node fits": (STARTING, STUCK, [News("Warning", "Unschedulable", "no GPU")]),
    "time is up": (STUCK, LATE, [News("Warning", "Unschedulable", "stalled: no GPU")]),
    "the spec is bad": (UP, BAD, [News("Warning", "InvalidSpec", "stalled: spec.a: no")]),
    "the spec is bad in another way": (BAD, WORSE, [News("Warning", "InvalidSpec", "stalled: spec.b: no")]),
    "the model is gated": (LOOKING, GATED, [News("Warning", "ModelGated", "stalled: accept")]),
    "the model is known": (
        LOOKING, COPYING, [News("Normal", "Resolved", "revision c0ffee"), News("Normal", "Copying", "3 GiB")],
    ),
    "the branch has moved": (
        COPYING, COPYING | {"model": {"revision": "badcafe"}}, [News("Normal", "Resolved", "revision c0ffee")],
    ),
    "the copy grows": (COPYING, COPYING | {"cache": {"bytesDone": 7}}, []),
    "the copy is complete": (
        COPYING, COPIED, [News("Normal", "Copied", "on claim x"), News("Normal", "ReplicasStarting", "0 of 1")],
    ),
    "nobody answers any more": (
        UP, status(("Ready", "False", "OOMKilled", "pod a"), ("Available", "False", "NoReplicaAvailable", "")),
        [News("Warning", "OOMKilled", "pod a"), News("Warning", "NoReplicaAvailable", "no replica answers any more")],
    ),
    "there is no metric": (
        status(SCALES), status(HOLDS), [News("Warning", "FailedGetObjectMetric", "replicas hold")],
    ),
    "there is a metric": (status(HOLDS), status(SCALES), [News("Normal", "ValidMetricFound", "by the metric")]),
    "what fails is another pod": (
        UP, UP | {"lastFailure": {"pod": "a", "code": "OOMKilled", "message": "4Gi", "time": "1"}},
        [News("Warning", "OOMKilled", "pod a: 4Gi")],
    ),
    "the same pod fails in the same way": (
        UP | {"lastFailure": {"pod": "a", "code": "OOMKilled", "message": "4Gi", "time": "1"}},
        UP | {"lastFailure": {"pod": "a", "code": "OOMKilled", "message": "4Gi", "time": "2"}}, [],
    ),
    "nothing happens": (COPIED, COPIED, []),
}  # fmt: skip


@pytest.mark.parametrize(("before", "after", "expected"), TABLE.values(), ids=TABLE.keys())
def test_news_when(before: Status, after: Status, expected: list[News]) -> None:
    assert list(news.of(before, after)) == expected


def test_one_failure_is_told_once_though_condition_and_last_failure_carry_it() -> None:
    before = judged(W, world.seen(deployment(W, (1, 1, 0))))
    failing = judged(W, world.seen(deployment(W, (1, 1, 0)), pods=[FAILING]), previous=before)
    assert [one.reason for one in news.of(before, failing)] == ["InsufficientMemory"]
    again = judged(W, world.seen(deployment(W, (1, 1, 0)), pods=[FAILING]), previous=failing)
    assert news.of(failing, again) == ()


def test_recovery_is_news_and_needs_no_warning() -> None:
    before = judged(W, world.seen(deployment(W, (1, 1, 0)), pods=[FAILING]))
    after = judged(W, world.seen(deployment(W, (1, 1, 1)), pods=[pods.ready()]), previous=before)
    assert [(one.type, one.reason) for one in news.of(before, after)] == [("Normal", "ReplicasAvailable")]
