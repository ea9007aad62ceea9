"""Who may take the lease, by an invented clock. What it does to a real one: the control-plane tests."""

from __future__ import annotations

from typing import Any, cast

from llmservice_operator.live import lease as lease_module
from llmservice_operator.live.client import Client
from llmservice_operator.live.lease import Lease, Rival

NOBODY = cast(Client, None)  # `may_take` asks no one


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def lease(clock: Clock) -> Lease:
    return Lease(NOBODY, "default", "operator", "me", clock)


def held_by(holder: str, renewed: str = "10:00:00") -> dict[str, Any]:
    return {"holderIdentity": holder, "renewTime": renewed, "leaseDurationSeconds": 10, "leaseTransitions": 1}


def test_a_lease_that_was_released_is_free_at_once() -> None:
    assert lease(Clock()).may_take(held_by(""))


def test_our_own_lease_is_ours_after_a_restart() -> None:
    assert lease(Clock()).may_take(held_by("me"))


def test_a_dead_leaders_lease_is_free_after_its_duration_and_not_before() -> None:
    clock = Clock()
    candidate = lease(clock)
    assert not candidate.may_take(held_by("other"))
    clock.now += 9.9
    assert not candidate.may_take(held_by("other"))
    clock.now += 0.1
    assert candidate.may_take(held_by("other"))


def test_each_renewal_starts_the_wait_afresh_whatever_its_time_says() -> None:
    clock = Clock()
    candidate = lease(clock)
    assert not candidate.may_take(held_by("other", "10:00:00"))
    clock.now += 9
    assert not candidate.may_take(held_by("other", "03:00:00"))  # the leader's clock is wrong
    clock.now += 9
    assert not candidate.may_take(held_by("other", "03:00:00"))
    clock.now += 1
    assert candidate.may_take(held_by("other", "03:00:00"))


def clusters(clock: Clock) -> Lease:
    return Lease(NOBODY, "kube-system", "operator", "ours/operator", clock, duration=20, handover=3.0)


def test_a_released_lease_is_left_to_the_other_replicas_of_its_install_for_a_moment() -> None:
    clock = Clock()
    waits, starts = clusters(clock), clusters(clock)
    other = held_by("theirs/operator")
    assert not waits.may_take(other)
    waits.rival = Rival("theirs/operator", "10:00:00")  # as `acquire` keeps it
    assert not waits.may_take(held_by(""))
    assert starts.may_take(held_by("")), "who did not see it held need not wait"
    clock.now += 3
    assert waits.may_take(held_by(""))


def test_the_clusters_lease_outlasts_the_one_that_elects_the_next_replica() -> None:
    assert lease_module.CLUSTER_DURATION > lease_module.DURATION + 2 * lease_module.RETRY
    assert lease_module.CLUSTER_HANDOVER > 2 * lease_module.RETRY
