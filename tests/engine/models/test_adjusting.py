"""Logits as requests want them: biases, penalties, what may not come. And that nobody else's row changes."""

from __future__ import annotations

from array import array

import pytest
import torch
from llmservice_engine.core.sampling_params import SamplingParams
from llmservice_engine.core.step import Draw
from llmservice_engine.sampling.adjust import adjust
from llmservice_engine.sampling.sampler import NoToken, sample
from transformers import RepetitionPenaltyLogitsProcessor

VOCABULARY = 100
PROMPT, OUTPUT = [3, 4, 4, 90], [4, 5, 5, 5]


def draw(*, prompt: list[int] = PROMPT, output: list[int] = OUTPUT, **params: object) -> Draw:
    chosen = SamplingParams(max_tokens=9, **{"temperature": 0.0} | params)  # type: ignore[arg-type]
    known = prompt + output
    return Draw(chosen, 0, len(known), len(prompt), array("q", known))


def adjusted(logits: torch.Tensor, *draws: Draw) -> torch.Tensor:
    changed = logits.clone()
    adjust(changed, draws, {})
    return changed


def some_logits(rows: int = 1) -> torch.Tensor:
    return torch.randn(rows, VOCABULARY, generator=torch.Generator().manual_seed(5)) * 3


def bits(*tokens: int) -> bytes:
    mask = bytearray(-(-VOCABULARY // 8))
    for token in tokens:
        mask[token // 8] |= 1 << token % 8
    return bytes(mask)


def test_frequency_counts_each_token_of_the_output_and_none_of_the_prompt() -> None:
    """B16"""
    logits = some_logits()
    wanted = logits.clone()
    wanted[0, 4] -= 0.5
    wanted[0, 5] -= 1.5
    assert torch.allclose(adjusted(logits, draw(frequency_penalty=0.5)), wanted)


def test_presence_counts_once_what_is_in_the_output_and_nothing_of_the_prompt() -> None:
    """B16"""
    logits = some_logits()
    wanted = logits.clone()
    wanted[0, [4, 5]] += 0.7
    assert torch.allclose(adjusted(logits, draw(presence_penalty=-0.7)), wanted)


@pytest.mark.parametrize("penalty", [1.3, 0.7])
def test_repetition_is_that_of_transformers_over_prompt_and_output(penalty: float) -> None:
    """B16"""
    logits = some_logits()
    reference = RepetitionPenaltyLogitsProcessor(penalty)(torch.tensor([PROMPT + OUTPUT]), logits.clone())
    assert torch.allclose(adjusted(logits, draw(repetition_penalty=penalty)), reference)


def test_a_bias_is_added_to_the_logit() -> None:
    logits = some_logits()
    wanted = logits.clone()
    wanted[0, 7] += 100
    wanted[0, 9] -= 2.5
    assert torch.allclose(adjusted(logits, draw(logit_bias=((7, 100.0), (9, -2.5)))), wanted)


def test_each_row_gets_its_own_wishes_and_plain_ones_stay() -> None:
    logits = some_logits(4)
    kinds = ({"frequency_penalty": 1.0}, {}, {"repetition_penalty": 2.0, "presence_penalty": 1.0}, {})
    draws = [draw(output=[n, n + 1], **kind) for n, kind in enumerate(kinds)]
    together = adjusted(logits, *draws)
    for row, one in enumerate(draws):
        assert torch.equal(together[row], adjusted(logits[row : row + 1], one)[0])
    assert torch.equal(together[[1, 3]], logits[[1, 3]])


def test_a_bad_word_of_several_tokens_is_forbidden_only_where_it_would_be_complete() -> None:
    logits = torch.zeros(1, VOCABULARY)
    words = ((8,), (5, 5, 20), (4, 21), (5, 22), (90, 23))
    (forbidden,) = adjusted(logits, draw(bad_words=words)).isinf()
    assert forbidden.nonzero().flatten().tolist() == [8, 20, 22], "the prompt's last token begins no bad word"


def test_no_end_token_comes_before_the_least_number_of_tokens() -> None:
    logits = torch.zeros(1, VOCABULARY)
    for least, ends in ((4, []), (5, [2, 3])):
        (forbidden,) = adjusted(logits, draw(min_tokens=least, stop_token_ids=frozenset({2, 3}))).isinf()
        assert forbidden.nonzero().flatten().tolist() == ends


def test_a_mask_leaves_only_its_tokens_and_a_vocabulary_beyond_it_may_not_come() -> None:
    logits = some_logits(3)
    masks = {0: bits(11, 12), 2: bits(13)[:2]}
    best = int(logits[0, [11, 12]].argmax()) + 11
    assert sample(logits, [draw()] * 3, masks)[1] == int(logits[1].argmax()), (
        "without a constraint it is not read"
    )
    constrained = [draw(constraint=object()), draw(), draw(constraint=object())]
    assert sample(logits, constrained, masks) == [best, int(logits[1].argmax()), 13]


def test_where_nothing_may_come_there_is_no_token_and_the_neighbours_have_theirs() -> None:
    logits = some_logits(2)
    draws = [draw(constraint=object(), bad_words=((11,),)), draw()]
    assert sample(logits, draws, {0: bits(11)}) == [NoToken.ALL_FORBIDDEN, int(logits[1].argmax())]
    assert NoToken.ALL_FORBIDDEN.failure.of_request
    assert not NoToken.NOT_FINITE.failure.of_request


def test_min_p_keeps_what_is_at_least_that_share_of_the_likeliest() -> None:
    logits = torch.full((1, VOCABULARY), -50.0)
    logits[0, :4] = torch.tensor([0.5, 0.3, 0.15, 0.05]).log()
    found = set()
    for seed in range(400):
        one = Draw(SamplingParams(max_tokens=1, temperature=1.0, min_p=0.29), seed, 0)
        found |= set(sample(logits, [one]))
    assert found == {0, 1, 2}


def test_top_p_of_0_keeps_the_likeliest_alone() -> None:
    logits = some_logits()
    draws = [Draw(SamplingParams(max_tokens=1, temperature=2.0, top_p=0.0), seed, 0) for seed in range(50)]
    assert set(sample(logits.expand(50, -1), draws)) == {int(logits.argmax())}


def test_the_logits_themselves_stay_as_they_are() -> None:
    logits = some_logits(2)
    before = logits.clone()
    sample(logits, [draw(frequency_penalty=1.0, logit_bias=((1, 9.0),)), draw(temperature=1.0, top_p=0.5)])
    assert torch.equal(logits, before)
