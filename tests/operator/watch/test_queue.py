"""The queue: pure schedule first (with an invented clock), then the part that waits."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from llmservice_operator.watch.queue import BACKOFF_LONGEST, Queue, Schedule, Urgency

KEYS = st.sampled_from(["a", "b", "c", "d"])
DELAYS = st.sampled_from([0.0, 0.5, 3.0])
URGENCIES = st.sampled_from(list(Urgency))


class ScheduleAgainstModel(RuleBasedStateMachine):
    """Whatever is added is handed out once, not too early, never to two workers, and never lost."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 100.0
        self.schedule: Schedule[str] = Schedule(jitter=lambda: 0.0)
        self.waiting: dict[str, float] = {}  # key → earliest time at which it may be handed out
        self.running: dict[str, float | None] = {}  # key → when it was asked for again
        self.failures: dict[str, int] = {}

    @rule(key=KEYS, delay=DELAYS, urgency=URGENCIES)
    def add(self, key: str, delay: float, urgency: Urgency) -> None:
        self.schedule.add(key, self.now, delay, urgency)
        due = self.now + delay
        if key in self.running:
            asked = self.running[key]
            self.running[key] = due if asked is None else min(asked, due)
        else:
            self.waiting[key] = min(due, self.waiting.get(key, due))

    @rule()
    def take(self) -> None:
        key = self.schedule.take(self.now)
        if key is None:
            assert all(due > self.now for due in self.waiting.values()), "something was due"
            return
        assert key not in self.running, "two workers on one key"
        assert self.waiting.pop(key) <= self.now, "too early"
        self.running[key] = None

    @precondition(lambda self: self.running)
    @rule(data=st.data(), fails=st.booleans())
    def finish(self, data: st.DataObject, fails: bool) -> None:
        key = data.draw(st.sampled_from(sorted(self.running)))
        asked = self.running.pop(key)
        if fails:
            failed = self.failures.get(key, 0)
            expected = min(2.0**failed, BACKOFF_LONGEST)
            assert self.schedule.retry(key, self.now) == expected
            self.failures[key] = failed + 1
            asked = self.now + expected if asked is None else min(asked, self.now + expected)
        else:
            self.schedule.done(key, self.now)
            self.failures.pop(key, None)
        if asked is not None:
            self.waiting[key] = max(asked, self.now)

    @rule(seconds=st.sampled_from([0.1, 1.0, 400.0]))
    def pass_time(self, seconds: float) -> None:
        self.now += seconds

    @invariant()
    def says_when_the_next_is_due(self) -> None:
        due = self.schedule.next_due(self.now)
        if not self.waiting:
            assert due is None
        else:
            assert due == pytest.approx(max(0.0, min(self.waiting.values()) - self.now))

    @invariant()
    def counts_what_waits_now(self) -> None:
        ready = [due for due in self.waiting.values() if due <= self.now]
        assert self.schedule.depth(self.now) == len(ready)
        assert self.schedule.age(self.now) == pytest.approx(
            max((self.now - due for due in ready), default=0.0)
        )


TestScheduleAgainstModel = ScheduleAgainstModel.TestCase
TestScheduleAgainstModel.settings = settings(max_examples=150, stateful_step_count=40)


def test_a_status_goes_before_a_pile_of_new_objects() -> None:
    schedule: Schedule[str] = Schedule()
    for number in range(5):
        schedule.add(f"new-{number}", 0.0, urgency=Urgency.BULK)
    schedule.add("running", 0.0)
    assert schedule.take(0.0) == "running"


def test_an_edit_makes_a_waiting_new_object_urgent() -> None:
    schedule: Schedule[str] = Schedule()
    schedule.add("first", 0.0, urgency=Urgency.BULK)
    schedule.add("edited", 0.0, urgency=Urgency.BULK)
    schedule.add("edited", 0.0, urgency=Urgency.NOW)
    assert [schedule.take(0.0), schedule.take(0.0), schedule.take(0.0)] == ["edited", "first", None]


def test_back_off_doubles_to_five_minutes_and_starts_afresh_after_a_success() -> None:
    schedule: Schedule[str] = Schedule(jitter=lambda: 0.0)
    now, delays = 0.0, []
    schedule.add("bad", now)
    for _ in range(11):
        assert schedule.take(now) == "bad"
        delays.append(schedule.retry("bad", now))
        now += delays[-1]
    assert delays == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]
    assert schedule.take(now) == "bad"
    schedule.done("bad", now)
    schedule.add("bad", now)
    assert schedule.take(now) == "bad"
    assert schedule.retry("bad", now) == 1


def test_an_edit_during_back_off_is_not_held_up() -> None:
    schedule: Schedule[str] = Schedule()
    schedule.add("bad", 0.0)
    schedule.take(0.0)
    schedule.retry("bad", 0.0)
    assert schedule.take(0.5) is None
    schedule.add("bad", 0.5)
    assert schedule.take(0.5) == "bad"


async def test_a_worker_wakes_for_a_key_that_ripens_and_for_one_that_arrives() -> None:
    queue: Queue[str] = Queue()
    queue.add("later", 0.05)
    async with asyncio.timeout(2):
        assert await queue.take() == "later"
        waiting = asyncio.create_task(queue.take())
        await asyncio.sleep(0.01)
        queue.add("now")
        assert await waiting == "now"


async def test_many_workers_never_meet_on_one_key() -> None:
    queue: Queue[int] = Queue()
    held: set[int] = set()
    handled: list[int] = []

    async def worker() -> None:
        while True:
            key = await queue.take()
            assert key not in held
            held.add(key)
            await asyncio.sleep(0.001)
            held.remove(key)
            handled.append(key)
            queue.done(key)

    workers = [asyncio.create_task(worker()) for _ in range(6)]
    for _ in range(5):
        for key in range(10):
            queue.add(key)
        await asyncio.sleep(0.0015)
    await asyncio.sleep(0.2)
    for task in workers:
        assert not task.done(), task.exception()
        task.cancel()
    assert set(handled) == set(range(10))
    assert queue.depth() == 0
