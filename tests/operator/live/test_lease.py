"""Who may take the lease, by an invented clock. What it does to a real one: the control-plane tests."""

from __future__ import annotations

from typing import Any, cast

from llmservice_operator.live.client import Client
from llmservice_operator.live.lease import Lease

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
