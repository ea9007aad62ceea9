"""Surge where a device is free, recycle where none is; decided once, and again only where it cannot work out."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import Any

import pytest
from llmservice_operator.api import names, revision
from llmservice_operator.api.seen import Seen
from llmservice_operator.api.spec import LLMService
from llmservice_operator.desired import plan, render, rollout

from tests.operator.desired import test_preparing, world

OLD = world.wanted()
NEW = world.wanted(engine={"maxModelLen": 128})


def running(**more: Any) -> Seen:
    """The old template runs."""
    children = world.rendered(OLD, world.seen())
    children["Deployment"]["status"] = {"replicas": 1}
    return dataclasses.replace(world.seen(*children.values()), **more)


def strategy(seen: Seen) -> dict[str, Any]:
    deployment = world.rendered(NEW, seen)["Deployment"]
    found: dict[str, Any] = deployment["spec"]["strategy"]["rollingUpdate"]
    return found


def begun(free: int) -> Seen:
    """The rollout of the new template has begun with so many free."""
    children = world.rendered(NEW, running(free=free))
    children["Deployment"]["status"] = {"replicas": 2}
    return world.seen(*children.values())


NO_DEVICE = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."


def older(wanted: LLMService = OLD) -> dict[str, Any]:
    labels = {names.REVISION_LABEL: revision.hash_of(wanted)}
    return {"metadata": {"name": "older", "labels": labels}}


def spare(seconds: float, wanted: LLMService = NEW, message: str = NO_DEVICE) -> dict[str, Any]:
    """A pod of the new template that has found no node for so long."""
    since = (world.NOON - timedelta(seconds=seconds)).isoformat()
    waiting = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": message,
        "lastTransitionTime": since,
    }
    labels = {names.REVISION_LABEL: revision.hash_of(wanted)}
    return {"metadata": {"name": "spare", "labels": labels}, "status": {"conditions": [waiting]}}


def test_it_is_asked_only_when_a_rollout_of_devices_begins() -> None:
    def begins(wanted: LLMService, seen: Seen) -> bool:
        return rollout.begins(wanted, world.planned(wanted, seen), seen)

    assert begins(NEW, running())
    assert not begins(OLD, running())
    assert not begins(NEW, begun(1))
    assert not begins(NEW, world.seen())
    assert not begins(world.wanted(accelerator={"count": 0}), running())
    assert not begins(world.wanted(engine={"maxModelLen": 1}, rollout={"strategy": "Surge"}), running())
    waiting = test_preparing.hub()
    assert not begins(waiting, running()), "its model is not there yet"


@pytest.mark.parametrize(
    ("free", "surge", "words"),
    [(2, 1, "were free"), (0, 0, "no node had"), (None, 0, "no spare one may exist")],
)
def test_a_free_device_means_surge(free: int | None, surge: int, words: str) -> None:
    seen = running(free=free)
    assert strategy(seen) == {"maxSurge": surge, "maxUnavailable": 1 - surge}
    assert words in plan.for_spec(NEW, seen, world.NOON).rollout.reason


@pytest.mark.parametrize("later", [0, 5, None])
def test_the_decision_holds_until_the_rollout_is_over(later: int | None) -> None:
    seen = dataclasses.replace(begun(1), free=later)
    assert strategy(seen) == {"maxSurge": 1, "maxUnavailable": 0}


def test_a_spare_replica_that_waits_in_vain_gives_way_to_recycling_for_good() -> None:
    waiting = dataclasses.replace(begun(1), pods=(older(), spare(10)))
    assert strategy(waiting) == {"maxSurge": 1, "maxUnavailable": 0}
    assert rollout.due_in(NEW, waiting, world.NOON) == pytest.approx(rollout.PATIENCE - 10)
    vain = dataclasses.replace(begun(1), pods=(older(), spare(rollout.PATIENCE)))
    children = world.rendered(NEW, vain)
    assert children["Deployment"]["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 1}
    healed = world.seen(*children.values())
    assert strategy(healed) == {"maxSurge": 0, "maxUnavailable": 1}
    assert "in vain" in plan.for_spec(NEW, healed, world.NOON).rollout.reason


@pytest.mark.parametrize(
    "pods",
    [
        (spare(rollout.PATIENCE),),
        (
            older(),
            spare(rollout.PATIENCE, message="0/1 nodes are available: 1 node(s) didn't match selector."),
        ),
    ],
    ids=["no older replica holds anything", "no node would have it anyway"],
)
def test_an_older_replica_goes_only_where_that_makes_room(pods: tuple[dict[str, Any], ...]) -> None:
    waiting = dataclasses.replace(begun(1), pods=pods)
    assert strategy(waiting) == {"maxSurge": 1, "maxUnavailable": 0}
    assert rollout.due_in(NEW, waiting, world.NOON) is None


def test_replicas_without_devices_recycle_too_where_a_spare_one_waits_in_vain() -> None:
    old = world.wanted(accelerator={"count": 0})
    new = world.wanted(accelerator={"count": 0}, engine={"maxModelLen": 128})
    short = "0/1 nodes are available: 1 Insufficient cpu."

    def told(seconds: float) -> tuple[str, str]:
        seen = dataclasses.replace(running(), pods=(older(old), spare(seconds, new, short)))
        found = plan.for_spec(new, seen, world.NOON).rollout
        return found.strategy, found.reason

    assert told(10) == ("Surge", "replicas hold no devices")
    assert told(rollout.PATIENCE) == ("Recycle", "a spare replica waited 30 s for room in vain")


def test_devices_that_may_not_be_seen_are_taken_for_none_and_that_is_said() -> None:
    hidden = running(free_is_hidden=True)
    assert strategy(hidden) == {"maxSurge": 0, "maxUnavailable": 1}
    found = plan.for_spec(NEW, hidden, world.NOON).rollout
    assert "cannot be seen" in found.reason
    assert names.ROLLOUT in world.rendered(NEW, hidden)["Deployment"]["metadata"]["annotations"]


def test_a_first_rollout_carries_no_decision() -> None:
    assert names.ROLLOUT not in world.rendered(OLD, world.seen())["Deployment"]["metadata"]["annotations"]


def test_what_the_spec_says_is_done() -> None:
    wanted = world.wanted(rollout={"strategy": "Surge", "maxSurge": "50%", "maxUnavailable": 0})
    found = render.render(wanted, world.planned(wanted, world.seen()), world.seen(), world.DEFAULTS)
    (deployment,) = (child for child in found.children if child["kind"] == "Deployment")
    assert deployment["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": "50%", "maxUnavailable": 0}
    recreate = world.rendered(world.wanted(rollout={"strategy": "Recreate"}), world.seen())
    assert recreate["Deployment"]["spec"]["strategy"] == {"type": "Recreate"}
