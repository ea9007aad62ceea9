"""Conditions keep the time of what has not changed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from llmservice_operator.api import conditions, defaults
from llmservice_operator.api.conditions import Conditions

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def test_unchanged_status_keeps_its_transition_time_whatever_the_message() -> None:
    first = Conditions(1, NOON)
    first.set(conditions.READY, False, "Starting", "0 of 1")
    later = Conditions(2, NOON + timedelta(hours=1), first.as_list())
    later.set(conditions.READY, False, "Starting", "1 of 2")
    (found,) = later.as_list()
    assert found["lastTransitionTime"] == "2026-01-01T12:00:00Z"
    assert (found["message"], found["observedGeneration"]) == ("1 of 2", 2)


def test_changed_status_has_a_new_transition_time() -> None:
    first = Conditions(1, NOON)
    first.set(conditions.READY, False, "Starting")
    later = Conditions(1, NOON + timedelta(hours=1), first.as_list())
    later.set(conditions.READY, True, "ReplicasAvailable")
    assert later.as_list()[0]["lastTransitionTime"] == "2026-01-01T13:00:00Z"


def test_condition_that_is_not_set_again_is_absent() -> None:
    first = Conditions(1, NOON)
    first.set(conditions.STALLED, True, "InvalidSpec")
    assert Conditions(1, NOON, first.as_list()).as_list() == []


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("OOMKilled", "OOMKilled"),
        ("Bad reason!", "Badreason"),
        ("", "Unknown"),
        ("9lives", "Unknown"),
        ("a:", "a"),
    ],
)
def test_reason_follows_the_api_conventions(text: str, reason: str) -> None:
    assert conditions.as_reason(text) == reason


def test_endless_message_is_cut() -> None:
    made = Conditions(1, NOON)
    made.set(conditions.READY, False, "X", "y" * 100_000)
    assert len(made.as_list()[0]["message"]) == conditions.LONGEST_MESSAGE


def test_defaults_are_read_from_the_charts_json() -> None:
    found = defaults.from_json(
        '{"imagePullSecrets": [{"name": "pull"}], "tolerations": [{"key": "gpu"}]}', "img:1"
    )
    assert found == defaults.Defaults(
        image="img:1", image_pull_secrets=("pull",), tolerations=({"key": "gpu"},)
    )


@pytest.mark.parametrize("text", ["{", "[]", '{"imagePullSecret": []}'])
def test_defaults_that_cannot_be_read_are_refused(text: str) -> None:
    with pytest.raises(defaults.DefaultsError):
        defaults.from_json(text)
