"""Whose events are worth a request."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from llmservice_operator.status import failures

from tests.operator.status import pods

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)

PUZZLES: dict[str, dict[str, Any]] = {
    "it has no container for a minute": pods.creating(),
    "its init containers have not begun": pods.creating()
    | {
        "status": {
            "conditions": pods.creating()["status"]["conditions"],
            "initContainerStatuses": [{"name": "a", "state": {"waiting": {"reason": "PodInitializing"}}}],
            "containerStatuses": [pods.engine(state={"waiting": {"reason": "PodInitializing"}})],
        }
    },
    "it is started and not ready for a minute": pods.unready(),
    "its engine was stopped without a word": pods.ended(exitCode=137),
    "its image cannot be pulled and there is a pull secret": pods.waiting("ErrImagePull")
    | {"spec": {"containers": [], "imagePullSecrets": [{"name": "regcred"}]}},
}
PLAIN: dict[str, dict[str, Any]] = {
    "it is new": pods.pod(),
    "it is ready": pods.ready(),
    "it loads": pods.pod(phase="Running", containerStatuses=[pods.engine(started=False, state={"running": {}})]),
    "no node fits": pods.pod(conditions=[pods.condition("PodScheduled", "False", "Unschedulable")]),
    "its engine has reported": pods.reported(),
    "it ran out of memory": pods.ended(exitCode=137, reason="OOMKilled"),
    "its image cannot be pulled": pods.waiting("ErrImagePull"),
    "its init container runs": pods.pod(
        initContainerStatuses=[{"name": "a", "state": {"running": {}}}],
        containerStatuses=[pods.engine(state={"waiting": {"reason": "PodInitializing"}})],
    ),
    "it was evicted": pods.pod(phase="Failed", reason="Evicted"),
    "it goes": pods.creating() | {"metadata": {"name": "x", "deletionTimestamp": "2026-01-01T11:59:00Z"}},
}  # fmt: skip


@pytest.mark.parametrize("pod", PUZZLES.values(), ids=PUZZLES.keys())
def test_a_pod_puzzles_when(pod: dict[str, Any]) -> None:
    assert failures.puzzling([pods.ready(), pod], NOON) == (pod,)
    look = failures.next_look([pods.ready(), pod], NOON)
    assert look is not None
    assert 10 <= look <= 60


@pytest.mark.parametrize("pod", PLAIN.values(), ids=PLAIN.keys())
def test_a_pods_state_says_all_when(pod: dict[str, Any]) -> None:
    assert failures.puzzling([pod], NOON) == ()
    assert failures.next_look([pod], NOON) is None


def test_a_moment_of_waiting_is_no_puzzle_yet() -> None:
    pod = pods.creating()
    early = NOON - timedelta(seconds=59)
    assert failures.puzzling([pod], early) == ()
    assert failures.next_look([pod], early) == pytest.approx(2.0)


def test_what_has_waited_long_is_looked_at_less_often() -> None:
    pod = pods.creating()
    looks = [failures.next_look([pod], NOON + timedelta(seconds=waited)) for waited in (0, 300, 86_400)]
    assert looks == [10.0, pytest.approx(35.7), 60.0]


def test_a_report_is_no_puzzle_though_the_engine_was_killed() -> None:
    pod = pods.ended(exitCode=137, message=json.dumps(pods.REPORT))
    assert failures.puzzling([pod], NOON) == ()
