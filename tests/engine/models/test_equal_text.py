"""Greedy text equals that of transformers, in fp32, alone and batched.

A difference is a fault only where the reference's two best logits differ by more than 1e-3.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from llmservice_engine.device.load import Loaded
from llmservice_engine.engine import Engine
from transformers import AutoModelForCausalLM, AutoTokenizer

from tests.engine.models import generating

TOKENS = 16
TIE = 1e-3

QUESTIONS = (
    "What is the capital of France?",
    "Name three colours.",
    "Write one sentence about the sea.",
    "What is 7 + 5?",
    "Who wrote Hamlet?",
    "Translate 'good morning' into Spanish.",
    "Why is the sky blue? Answer briefly.",
    "List the planets of the solar system.",
    "What does a compiler do?",
    "Give me a recipe for pancakes, with quantities, for four people who are in a hurry.",
)
TEXTS = (
    "Once upon a time, in a small village",
    "The quick brown fox",
    "def fibonacci(n):\n    ",
    "1, 2, 3, 4, 5, 6,",
    "The three laws of thermodynamics are",
    "In 1969, astronauts",
    "Dear Sir or Madam,\n\nI am writing to",
    "Žluťoučký kůň",
    "A" * 40,
    "Water boils at 100 degrees Celsius. " * 12 + "Therefore,",
)


@pytest.fixture(scope="module")
def prompts(model_folder: Path) -> dict[str, list[int]]:
    """Twenty prompts: chats and plain texts, from 4 to 150 tokens."""
    tokenizer = AutoTokenizer.from_pretrained(model_folder)
    chats = [
        tokenizer.apply_chat_template(
            [{"role": "user", "content": question}], add_generation_prompt=True, return_dict=False
        )
        for question in QUESTIONS
    ]
    encoded = chats + [tokenizer(text)["input_ids"] for text in TEXTS]
    return {f"prompt {number}": ids for number, ids in enumerate(encoded)}


class Reference:
    """transformers' own greedy text."""

    def __init__(self, folder: Path) -> None:
        self._model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)

    @torch.inference_mode()
    def texts(self, prompts: Sequence[list[int]]) -> list[list[int]]:
        """All prompts in one left-padded batch; end tokens are tokens like any other."""
        longest = max(map(len, prompts))
        ids = torch.tensor([[0] * (longest - len(prompt)) + prompt for prompt in prompts])
        mask = torch.tensor([[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in prompts])
        out = self._model.generate(
            ids,
            attention_mask=mask,
            max_new_tokens=TOKENS,
            do_sample=False,
            eos_token_id=None,
            pad_token_id=0,
        )
        return out[:, longest:].tolist()  # type: ignore[no-any-return]

    @torch.inference_mode()
    def best_two(self, ids: list[int]) -> tuple[float, set[int]]:
        """How far the two best logits after ``ids`` are apart, and their tokens."""
        best = self._model(torch.tensor([ids])).logits[0, -1].topk(2)
        return float(best.values[0] - best.values[1]), set(best.indices.tolist())


@pytest.fixture(scope="module")
def reference(model_folder: Path) -> Reference:
    return Reference(model_folder)


@pytest.fixture(scope="module")
def expected(reference: Reference, prompts: dict[str, list[int]]) -> dict[str, list[int]]:
    return dict(zip(prompts, reference.texts(list(prompts.values())), strict=True))


def assert_equal_text(reference: Reference, prompt: list[int], wanted: list[int], got: Sequence[int]) -> None:
    for position, (right, ours) in enumerate(zip(wanted, got, strict=True)):
        if right != ours:
            gap, candidates = reference.best_two(prompt + wanted[:position])
            assert gap <= TIE, f"token {position}: {ours} instead of {right}, logits {gap} apart"
            assert ours in candidates
            return  # a tie: from here on the texts differ by right


def test_twenty_prompts_one_at_a_time_give_the_text_of_transformers(
    engine: Engine, reference: Reference, prompts: dict[str, list[int]], expected: dict[str, list[int]]
) -> None:
    for name, prompt in prompts.items():
        got = generating.texts(engine, {name: prompt}, generating.greedy(TOKENS))[name]
        assert_equal_text(reference, prompt, expected[name], got)


def test_twenty_prompts_in_one_batch_give_the_text_of_transformers(
    engine: Engine, reference: Reference, prompts: dict[str, list[int]], expected: dict[str, list[int]]
) -> None:
    got = generating.texts(engine, prompts, generating.greedy(TOKENS))
    for name, prompt in prompts.items():
        assert_equal_text(reference, prompt, expected[name], got[name])


def test_prompts_in_small_chunks_under_a_tiny_cache_give_the_text_of_transformers(
    loaded: Loaded, reference: Reference, prompts: dict[str, list[int]], expected: dict[str, list[int]]
) -> None:
    """Chunked prefill, preemption and recomputing all at once."""
    squeezed = generating.squeezed(loaded, blocks=14, max_num_seqs=8, max_num_batched_tokens=24)
    got = generating.texts(squeezed, prompts, generating.greedy(TOKENS))
    assert squeezed.stats().preemptions > 0
    for name, prompt in prompts.items():
        assert_equal_text(reference, prompt, expected[name], got[name])
