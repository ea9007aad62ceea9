"""Jobs that are tried again: which attempt counts, and when the next one is due."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from llmservice_operator.api import attempts

from tests.operator.desired.world import NOON


def job(number: int, ended: str | None = None, ago: float = 0.0, base: str = "copy") -> dict[str, Any]:
    at = (NOON - timedelta(seconds=ago)).isoformat()
    conditions = [{"type": ended, "status": "True", "lastTransitionTime": at}] if ended else []
    return {
        "kind": "Job",
        "metadata": {
            "name": attempts.name(base, number),
            "uid": f"{base}-{number}",
            "annotations": attempts.marks(base, number),
            "creationTimestamp": at,
        },
        "status": {"conditions": conditions},
    }


def turn(*jobs: dict[str, Any], now: datetime = NOON) -> attempts.Turn:
    return attempts.turn(jobs, "copy", now)


def test_the_first_attempt_is_made_at_once() -> None:
    found = turn(job(1, base="another"))
    assert (found.number, found.job, found.due_in) == (1, None, None)


def test_a_running_attempt_counts() -> None:
    found = turn(job(1))
    assert (found.number, found.job is not None, found.complete) == (1, True, False)


def test_a_complete_attempt_is_the_end() -> None:
    assert turn(job(1, "Failed", 60), job(2, "Complete")).complete


@pytest.mark.parametrize(
    ("number", "pause"), [(1, 5), (2, 10), (3, 20), (6, 160), (7, 300), (8, 300), (400, 300)]
)
def test_the_pause_doubles_up_to_five_minutes(number: int, pause: float) -> None:
    failed = job(number, "Failed", ago=pause - 1)
    waiting = turn(failed)
    assert (waiting.number, waiting.due_in) == (number, pytest.approx(1))
    due = turn(failed, now=NOON + timedelta(seconds=1))
    assert (due.number, due.job) == (number + 1, None)
    assert due.before == failed


def test_a_finished_job_whose_report_is_gone_is_done_again() -> None:
    found = attempts.turn([job(1, "Complete", ago=60)], "copy", NOON, lost=frozenset({"copy-1"}))
    assert (found.number, found.job, found.complete) == (2, None, False)
    waiting = attempts.turn([job(1, "Complete")], "copy", NOON, lost=frozenset({"copy-1"}))
    assert not waiting.complete
    assert waiting.due_in == pytest.approx(5)


def test_what_failed_last_can_be_read_until_the_next_attempt_has_ended() -> None:
    first, second = job(1, "Failed", 60), job(2)
    assert attempts.surplus([first, second], [turn(first, second)]) == ()
    ended = job(2, "Failed")
    assert attempts.surplus([first, ended], [turn(first, ended)]) == ("copy-1",)
    complete = job(2, "Complete")
    assert attempts.surplus([first, complete], [turn(first, complete)]) == ("copy-1",)


def test_a_job_that_nobody_waits_for_goes() -> None:
    assert attempts.surplus([job(1), job(1, base="old")], [turn(job(1)), None]) == ("old-1",)
