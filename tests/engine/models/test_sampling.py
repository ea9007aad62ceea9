"""The sampler alone: distributions, filters, seeds."""

from __future__ import annotations

import math

import pytest
import torch
from llmservice_engine.core.sampling_params import SamplingParams
from llmservice_engine.core.step import Draw
from llmservice_engine.sampling.noise import uniform
from llmservice_engine.sampling.sampler import NoToken, sample

VOCABULARY = 3000


def draw(seed: int = 0, position: int = 0, **params: object) -> Draw:
    return Draw(SamplingParams(max_tokens=1, **params), seed, position)  # type: ignore[arg-type]


def some_logits(rows: int = 1) -> torch.Tensor:
    return torch.randn(rows, VOCABULARY, generator=torch.Generator().manual_seed(3)) * 2


def counts(logits: torch.Tensor, tries: int, **params: object) -> dict[int, int]:
    draws = [draw(seed=7, position=n, **params) for n in range(tries)]
    found: dict[int, int] = {}
    for token in sample(logits.expand(tries, -1), draws):
        assert not isinstance(token, NoToken)
        found[token] = found.get(token, 0) + 1
    return found


def test_greedy_takes_the_best() -> None:
    logits = some_logits(4)
    assert sample(logits, [draw(temperature=0)] * 4) == logits.argmax(-1).tolist()


def test_top_k_of_one_equals_greedy_at_any_temperature() -> None:
    logits = some_logits(4)
    assert sample(logits, [draw(temperature=2, top_k=1)] * 4) == logits.argmax(-1).tolist()


@pytest.mark.parametrize("temperature", [1e-3, 1e-4, 2e-5, 1e-8, 1e-12])
def test_a_tiny_temperature_equals_greedy(temperature: float) -> None:
    logits = some_logits(8) * 50
    draws = [draw(seed=n, temperature=temperature) for n in range(8)]
    assert sample(logits, draws) == logits.argmax(-1).tolist()


def test_frequencies_follow_the_softmax_of_the_scaled_logits() -> None:
    logits = torch.full((1, VOCABULARY), float("-1e9"))
    logits[0, [5, 50, 500]] = torch.tensor([1.0, 2.0, 3.0])
    wanted = (logits[0, [5, 50, 500]] / 0.7).softmax(-1)
    found = counts(logits, 4000, temperature=0.7)
    for token, share in zip((5, 50, 500), wanted.tolist(), strict=True):
        assert found[token] / 4000 == pytest.approx(share, abs=4 * math.sqrt(share * (1 - share) / 4000))


def test_top_k_keeps_exactly_the_k_best() -> None:
    logits = some_logits()
    found = counts(logits, 3000, temperature=2.0, top_k=4)
    assert set(found) == set(logits[0].topk(4).indices.tolist())


def test_top_k_larger_than_what_is_sorted_first_keeps_exactly_the_k_best() -> None:
    logits = torch.linspace(1, 0, VOCABULARY)[None]
    found = counts(logits, 4000, temperature=1.0, top_k=2000)
    assert max(found) < 2000
    assert max(found) > 1900


def test_top_p_keeps_the_fewest_tokens_that_reach_it() -> None:
    logits = torch.tensor([[0.4, 0.3, 0.2, 0.1] + [1e-12] * 96]).log()
    assert set(counts(logits, 2000, top_p=0.69)) == {0, 1}
    assert set(counts(logits, 2000, top_p=0.71)) == {0, 1, 2}
    assert set(counts(logits, 200, top_p=1e-6)) == {0}


def test_top_p_of_a_flat_distribution_reaches_beyond_what_is_sorted_first() -> None:
    flat = torch.zeros(1, VOCABULARY)
    found = counts(flat, 6000, top_p=0.9)
    assert len(found) > 2000
    assert len(found) <= math.ceil(0.9 * VOCABULARY) + 1


def test_top_p_counts_within_the_k_best() -> None:
    logits = torch.tensor([[0.4, 0.3, 0.2, 0.1]]).log()
    assert set(counts(logits, 2000, top_k=2, top_p=0.5)) == {0}  # 0.4 of 0.7 is more than half


def test_a_draw_depends_on_nothing_but_its_own_row_seed_and_position() -> None:
    logits = some_logits(5)
    kinds = ({}, {"top_p": 0.8}, {"top_k": 20}, {"top_p": 0.999, "temperature": 2.0}, {"temperature": 0.0})
    draws = [draw(seed=n, position=n, **kind) for n, kind in enumerate(kinds)]
    together = sample(logits, draws)
    assert together == [sample(logits[n : n + 1], [draws[n]])[0] for n in range(5)]


def test_numbers_of_neighbouring_seeds_and_positions_are_unrelated() -> None:
    numbers = [uniform(seed, position) for seed in range(40) for position in range(50)]
    assert all(0 <= number < 1 for number in numbers)
    assert len(set(numbers)) == 2000
    assert sum(numbers) / 2000 == pytest.approx(0.5, abs=0.03)
    assert uniform(2**63 - 1, 0) != uniform(0, 2**63 - 1)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_logits_that_are_not_finite_give_no_token_and_leave_neighbours_alone(bad: float) -> None:
    logits = some_logits(3)
    wanted = logits.argmax(-1).tolist()
    logits[1, 17] = bad
    for params in ({"temperature": 0.0}, {"temperature": 1e-3}, {"temperature": 1e-3, "top_p": 0.9}):
        assert sample(logits, [draw(**params)] * 3) == [wanted[0], NoToken.NOT_FINITE, wanted[2]]
