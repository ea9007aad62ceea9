"""The scheduler, driven by hand: pure integers, no model."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llmservice_engine.core import request
from llmservice_engine.core.outputs import FinishReason, TokenDelta, TokenLogprobs
from llmservice_engine.core.request import NewRequest
from llmservice_engine.core.sampling_params import SamplingParams
from llmservice_engine.core.scheduler import Scheduler
from llmservice_engine.core.step import Failure, StepPlan, StepResult

BLOCK = 4


def make(*, blocks: int = 100, seqs: int = 8, budget: int = 16) -> Scheduler:
    return Scheduler(blocks=blocks, block_size=BLOCK, max_num_seqs=seqs, max_num_batched_tokens=budget)


def add(
    scheduler: Scheduler, name: str, prompt: int, output: int, *, priority: int = 0, **params: object
) -> None:
    chosen = SamplingParams(max_tokens=output, temperature=0, **params)  # type: ignore[arg-type]
    new = NewRequest(name, tuple(range(prompt)), chosen, priority)
    scheduler.add(request.start(new, default_seed=0))


def token_at(name: str, position: int) -> int:
    """What our imaginary model says: a token that depends on the sequence and the position only."""
    return 1000 + position + 7 * sum(map(ord, name))


def answer(plan: StepPlan) -> StepResult:
    """Prompts are those of :func:`add`, so the rank that is told of a prompt's token is its position."""
    return StepResult(
        {c.request_id: token_at(c.request_id, c.end) for c in plan.chunks if c.draw is not None},
        prompt_logprobs={
            c.request_id: tuple(TokenLogprobs(-1.0, token, (), ()) for token in c.score.token_ids)
            for c in plan.chunks
            if c.score is not None
        },
    )


def run(scheduler: Scheduler) -> list[TokenDelta]:
    """To the end of all requests."""
    deltas: list[TokenDelta] = []
    while scheduler.has_work:
        plan = scheduler.schedule()
        deltas += scheduler.update(plan, answer(plan))
    return deltas


def shape(plan: StepPlan) -> list[tuple[str, int, int, bool]]:
    return [(c.request_id, c.start, len(c.token_ids), c.draw is not None) for c in plan.chunks]


def test_long_prompt_is_computed_in_chunks_and_only_the_last_one_samples() -> None:
    scheduler = make(budget=10)
    add(scheduler, "a", 25, 1)
    seen = []
    while scheduler.has_work:
        plan = scheduler.schedule()
        seen += shape(plan)
        scheduler.update(plan, answer(plan))
    assert seen == [("a", 0, 10, False), ("a", 10, 10, False), ("a", 20, 5, True)]


def test_first_delta_comes_only_after_the_whole_prompt() -> None:
    scheduler = make(budget=10)
    add(scheduler, "a", 25, 2)
    deltas = []
    for _ in range(3):
        plan = scheduler.schedule()
        deltas.append(scheduler.update(plan, answer(plan)))
    assert deltas[:2] == [[], []]
    assert [d.token_ids for d in deltas[2]] == [(token_at("a", 25),)]


def test_answers_go_on_in_every_step_while_a_long_prompt_is_computed() -> None:
    scheduler = make(budget=10)
    add(scheduler, "talker", 3, 50)
    scheduler.update(plan := scheduler.schedule(), answer(plan))
    add(scheduler, "prompt", 35, 1)
    for _ in range(4):
        plan = scheduler.schedule()
        assert shape(plan)[0][0] == "talker"
        assert plan.tokens == 10 or plan.chunks[-1].draw is not None
        scheduler.update(plan, answer(plan))


def test_requests_are_admitted_in_the_order_of_arrival() -> None:
    scheduler = make(seqs=2, budget=100)
    for name in "abcd":
        add(scheduler, name, 5, 1)
    first = scheduler.schedule()
    scheduler.update(first, answer(first))
    second = scheduler.schedule()
    assert [c.request_id for c in first.chunks] == ["a", "b"]
    assert [c.request_id for c in second.chunks] == ["c", "d"]


def test_stop_token_ends_a_request() -> None:
    scheduler = make()
    add(scheduler, "a", 4, 3, stop_token_ids=frozenset({token_at("a", 5)}))
    assert [delta.finish_reason for delta in run(scheduler)] == [None, FinishReason.STOP]


def test_a_lower_priority_number_goes_first_and_equal_ones_in_the_order_of_arrival() -> None:
    scheduler = make(seqs=1)
    for name, priority in (("late", 5), ("first", 0), ("second", 0), ("urgent", -1)):
        add(scheduler, name, 4, 1, priority=priority)
    assert [delta.request_id for delta in run(scheduler)] == ["urgent", "first", "second", "late"]


def test_prompt_tokens_are_told_about_once_each_in_whatever_chunks_and_after_a_preemption() -> None:
    for blocks in (100, 6):  # too few for both: one is preempted in its prompt or after it
        scheduler = make(budget=5, blocks=blocks)
        add(scheduler, "other", 10, 12)
        add(scheduler, "a", 11, 8, prompt_logprobs=2)
        (first, *others) = [delta for delta in run(scheduler) if delta.request_id == "a"]
        assert [told.rank for told in first.prompt_logprobs] == list(range(1, 11))
        assert not any(delta.prompt_logprobs for delta in others)
        assert (scheduler.stats().preemptions > 0) == (blocks == 6)


def test_without_output_tokens_the_prompt_is_computed_and_nothing_sampled() -> None:
    scheduler = make(budget=5)
    add(scheduler, "a", 11, 0, prompt_logprobs=0)
    (only,) = run(scheduler)
    assert (only.token_ids, only.finish_reason, len(only.prompt_logprobs)) == ((), FinishReason.LENGTH, 10)


class Countdown:
    """A constraint that lets a given number of tokens through."""

    def __init__(self, tokens: int) -> None:
        self.left = tokens
        self.seen: list[int] = []

    def start(self) -> Countdown:
        return Countdown(self.left)

    def mask(self) -> bytes:
        raise NotImplementedError

    def advance(self, token_id: int) -> None:
        self.seen.append(token_id)
        self.left -= 1

    def rollback(self, tokens: int) -> None:
        raise NotImplementedError

    @property
    def finished(self) -> bool:
        return self.left == 0


def test_a_constraint_follows_each_output_token_once_also_over_a_preemption_and_ends_the_text() -> None:
    scheduler = make(blocks=5, budget=100)
    add(scheduler, "a", 8, 8)
    add(scheduler, "b", 7, 8, constraint=Countdown(6))
    deltas = [delta for delta in run(scheduler) if delta.request_id == "b"]
    assert scheduler.stats().preemptions
    assert [delta.token_ids for delta in deltas] == [(token_at("b", 7 + n),) for n in range(6)]
    assert deltas[-1].finish_reason is FinishReason.STOP


def test_the_last_admitted_is_preempted_when_blocks_run_out() -> None:
    scheduler = make(blocks=5, budget=100)
    add(scheduler, "a", 8, 8)
    add(scheduler, "b", 7, 8)
    preempted_at = None
    for step in range(40):
        plan = scheduler.schedule()
        if scheduler.stats().preemptions and preempted_at is None:
            preempted_at = step
            assert [c.request_id for c in plan.chunks] == ["a"]
        scheduler.update(plan, answer(plan))
        if not scheduler.has_work:
            break
    assert preempted_at is not None
    assert not scheduler.has_work
    assert scheduler.stats().kv_usage == 0


def test_a_preempted_request_resumes_before_those_that_came_later() -> None:
    scheduler = make(blocks=5, seqs=2, budget=100)
    for name, prompt, output in (("a", 8, 8), ("b", 7, 8), ("later", 1, 1)):
        add(scheduler, name, prompt, output)
    plans = []
    while scheduler.has_work:
        plans.append(scheduler.schedule())
        scheduler.update(plans[-1], answer(plans[-1]))
    assert scheduler.stats().preemptions == 1
    first_with_later = next(shape(plan) for plan in plans if "later" in {c.request_id for c in plan.chunks})
    assert [name for name, *_ in first_with_later] == ["b", "later"]


def test_aborting_frees_blocks_and_says_nothing_more() -> None:
    scheduler = make(blocks=4)
    add(scheduler, "a", 16, 1)
    plan = scheduler.schedule()
    scheduler.abort("a")
    scheduler.abort("never there")
    assert scheduler.stats().kv_usage == 0
    assert scheduler.update(plan, answer(plan)) == []
    assert not scheduler.has_work


def test_a_failed_sequence_ends_with_the_reason_and_its_neighbours_go_on() -> None:
    scheduler = make()
    add(scheduler, "bad", 4, 5)
    add(scheduler, "vain", 4, 5)
    add(scheduler, "good", 4, 5)
    plan = scheduler.schedule()
    errors = {"bad": Failure("not finite"), "vain": Failure("nothing fits", of_request=True)}
    deltas = scheduler.update(plan, StepResult({"good": 9}, errors))
    assert [(d.request_id, d.token_ids, d.finish_reason, d.error) for d in deltas] == [
        ("bad", (), FinishReason.ERROR, "not finite"),
        ("vain", (), FinishReason.REFUSED, "nothing fits"),
        ("good", (9,), None, None),
    ]
    assert scheduler.request_ids == ("good",)


def test_a_request_that_can_never_advance_is_an_error_not_a_busy_loop() -> None:
    scheduler = make(blocks=2, budget=100)
    add(scheduler, "giant", 100, 1)
    with pytest.raises(RuntimeError, match="none of 1 requests can advance"):
        scheduler.schedule()


@dataclass(frozen=True)
class Load:
    requests: list[tuple[int, int]]  # prompt and output tokens
    blocks: int
    seqs: int
    budget: int


@st.composite
def loads(draw: st.DrawFn) -> Load:
    blocks = draw(st.integers(4, 24))
    room = blocks * BLOCK
    requests = []
    for _ in range(draw(st.integers(1, 10))):
        prompt = draw(st.integers(1, room - 1))
        requests.append((prompt, draw(st.integers(1, min(20, room - prompt)))))
    return Load(requests, blocks, draw(st.integers(1, 6)), draw(st.integers(1, 40)))


@settings(max_examples=150)
@given(loads())
def test_whatever_the_load_every_request_gets_the_tokens_that_it_would_get_alone(load: Load) -> None:
    """Under any budget, pool and neighbours: limits are kept, tables never overlap, nobody starves or leaks."""
    scheduler = make(blocks=load.blocks, seqs=load.seqs, budget=load.budget)
    for number, (prompt, output) in enumerate(load.requests):
        add(scheduler, str(number), prompt, output)
    texts: dict[str, list[int]] = {str(number): [] for number in range(len(load.requests))}
    for _ in range(20_000):
        if not scheduler.has_work:
            break
        plan = scheduler.schedule()
        assert 1 <= plan.tokens <= load.budget
        assert len(plan.chunks) <= load.seqs
        tables = [block for chunk in plan.chunks for block in chunk.block_table]
        assert len(tables) == len(set(tables))
        for chunk in plan.chunks:
            assert len(chunk.block_table) == -(-chunk.end // BLOCK)
        for delta in scheduler.update(plan, answer(plan)):
            texts[delta.request_id] += delta.token_ids
    assert not scheduler.has_work, "a request starves"
    assert scheduler.stats().kv_usage == 0
    for number, (prompt, output) in enumerate(load.requests):
        name = str(number)
        assert texts[name] == [token_at(name, prompt + i) for i in range(output)]
