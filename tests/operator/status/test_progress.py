"""What pods that have not failed are still waiting for."""

from __future__ import annotations

from typing import Any

import pytest
from llmservice_operator.status import progress

from tests.operator.status import pods

STAGES: dict[str, tuple[dict[str, Any], str]] = {
    "new": (pods.pod(), "pod llama-1: not on a node yet"),
    "being made": (pods.waiting("ContainerCreating"), "pod llama-1: ContainerCreating"),
    "loading": (
        pods.pod(containerStatuses=[pods.engine(state={"running": {}})]),
        "pod llama-1: loading the model",
    ),
    "started": (
        pods.pod(containerStatuses=[pods.engine(started=True, state={"running": {}})]),
        "pod llama-1: healthy, not ready",
    ),
    "ready": (pods.ready(), ""),
    "evicted": (pods.pod(phase="Failed"), ""),
}


@pytest.mark.parametrize(("pod", "words"), STAGES.values(), ids=STAGES.keys())
def test_stage_is_told_in_a_few_words(pod: dict[str, Any], words: str) -> None:
    assert progress.slowest([pod]) == words


def test_pod_that_has_come_least_far_is_told_of() -> None:
    given = [pods.ready("a"), *(pod for pod, _ in STAGES.values())]
    assert progress.slowest(given) == "pod llama-1: not on a node yet"


@pytest.mark.parametrize(
    ("modes", "replicas", "warned"),
    [(["ReadWriteOnce"], 2, True), (["ReadWriteOnce"], 1, False), (["ReadWriteOnce", "ReadWriteMany"], 2, False),
     (["ReadOnlyMany"], 2, False), ([], 2, False)],
)  # fmt: skip
def test_claim_of_one_node_is_warned_of_only_where_it_must_feed_several(
    modes: list[str], replicas: int, warned: bool
) -> None:
    claim = {"metadata": {"name": "models"}, "spec": {"accessModes": modes}}
    assert bool(progress.unshared(claim, replicas)) == warned
