"""What every status of ours keeps to, whatever it says."""

from __future__ import annotations

import pytest
from llmservice_operator.api import conditions

from tests.operator.gitops import states
from tests.operator.gitops.states import Body

ALL = {**states.CONCLUDED, **dict(states.judges_own())}


@pytest.fixture(params=ALL.values(), ids=ALL.keys())
def status(request: pytest.FixtureRequest) -> Body:
    found: Body = request.param["status"]
    return found


def test_ready_is_always_there_and_first(status: Body) -> None:
    assert status["conditions"][0]["type"] == "Ready"
    assert status["conditions"][0]["status"] in ("True", "False")


def test_reconciling_and_stalled_are_there_only_while_true_and_never_both(status: Body) -> None:
    found = [one for one in status["conditions"] if one["type"] in ("Reconciling", "Stalled")]
    ready = status["conditions"][0]["status"] == "True"
    assert [one["status"] for one in found] == ([] if ready else ["True"])


def test_every_condition_says_for_which_generation_it_was_concluded(status: Body) -> None:
    assert {one["observedGeneration"] for one in status["conditions"]} == {status["observedGeneration"]}


def test_every_condition_has_a_reason_and_its_own_type(status: Body) -> None:
    types = [one["type"] for one in status["conditions"]]
    assert len(types) == len(set(types))
    assert set(types) <= set(conditions.ORDER)
    assert all(one["reason"] and one["reason"] != "Unknown" for one in status["conditions"])


def test_a_generation_counts_as_observed_only_with_conclusions() -> None:
    """What nobody has looked at carries neither; every status of the judge carries both."""
    assert states.created()["status"] == {"observedGeneration": -1}
    assert all(
        body["status"]["observedGeneration"] >= 1 and body["status"]["conditions"] for body in ALL.values()
    )
