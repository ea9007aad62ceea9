"""What the engine tells of its tokens' likelihood, against transformers."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from llmservice_engine.core.outputs import TokenDelta
from llmservice_engine.core.request import NewRequest
from llmservice_engine.core.sampling_params import SamplingParams
from llmservice_engine.engine import Engine
from llmservice_engine.sampling.logprobs import logprobs
from llmservice_planner.settings import EngineSettings
from transformers import AutoModelForCausalLM

PROMPT = tuple(range(5, 45))


@pytest.fixture
def folder(checkpoint: object) -> Path:
    return checkpoint()  # type: ignore[operator]


def engine(folder: Path, **settings: object) -> Engine:
    return Engine.load(
        EngineSettings(model=str(folder), dtype="float32", gpu_memory_utilization=0.5, **settings),  # type: ignore[arg-type]
        lambda _: None,
    )


def answer(engine: Engine, **params: object) -> list[TokenDelta]:
    engine.add(NewRequest("a", PROMPT, SamplingParams(**{"max_tokens": 6, "temperature": 0.0} | params)))  # type: ignore[arg-type]
    deltas: list[TokenDelta] = []
    while engine.has_work:
        deltas += engine.step()
    return deltas


def reference(folder: Path, tokens: list[int]) -> torch.Tensor:
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    with torch.inference_mode():
        return model(torch.tensor([tokens])).logits[0].log_softmax(-1)


@pytest.mark.parametrize("budget", [2048, 16])
def test_logprobs_of_prompt_and_answer_are_those_of_transformers_in_whatever_chunks(
    folder: Path, budget: int
) -> None:
    """A23"""
    deltas = answer(engine(folder, max_num_batched_tokens=budget), logprobs=3, prompt_logprobs=2)
    output = [token for delta in deltas for token in delta.token_ids]
    every = reference(folder, [*PROMPT, *output])
    told = [*deltas[0].prompt_logprobs, *(one for delta in deltas for one in delta.logprobs)]
    tokens = [*PROMPT, *output][1:]
    assert len(told) == len(tokens)
    for row, (one, token) in enumerate(zip(told, tokens, strict=True)):
        top = 2 if row < len(PROMPT) - 1 else 3
        best, ids = every[row].topk(top)
        assert one.logprob == pytest.approx(every[row, token].item(), abs=1e-4)
        assert one.rank == int((every[row] > every[row, token]).sum()) + 1
        assert one.top_ids == tuple(ids.tolist())
        assert one.top_logprobs == pytest.approx(best.tolist(), abs=1e-4)


def test_they_are_the_model_s_own_before_temperature_penalties_and_what_is_cut(folder: Path) -> None:
    """A22"""
    served = engine(folder)
    plain = answer(served, logprobs=5, max_tokens=1)[0].logprobs[0]
    first = plain.top_ids[0]
    for wish in (
        {"temperature": 1.7, "top_k": 1},
        {"frequency_penalty": 2.0},
        {"temperature": 0.5, "seed": 1},
    ):
        (other,) = answer(served, logprobs=5, max_tokens=1, **wish)[0].logprobs
        assert (other.top_ids, other.top_logprobs) == (plain.top_ids, plain.top_logprobs)
    (forced,) = answer(served, logprobs=5, max_tokens=1, logit_bias=((first, -100.0),))[0].logprobs
    assert forced.rank > 1
    assert forced.top_ids == plain.top_ids


def test_a_token_that_cannot_come_is_told_as_such() -> None:
    """A22"""
    logits = torch.tensor([[0.0, float("-inf"), 1.0]])
    (told,) = logprobs(logits, [1], [3])
    assert (told.logprob, told.rank, told.top_ids) == (float("-inf"), 3, (2, 0, 1))


def test_many_rows_are_told_as_each_alone() -> None:
    logits = torch.randn(70, 50, generator=torch.Generator().manual_seed(1))
    tokens, tops = list(range(50))[:35] * 2, [0, 1, 5, 20, 50] * 14
    together = logprobs(logits, tokens, tops)
    assert together == [logprobs(logits[n : n + 1], [tokens[n]], [tops[n]])[0] for n in range(70)]
    assert [len(one.top_ids) for one in together] == tops
