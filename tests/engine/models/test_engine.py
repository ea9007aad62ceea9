"""The engine's promises, on small random checkpoints: what is computed when must not change what is said."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from llmservice_engine.core.errors import RequestError, RequestTooLong
from llmservice_engine.core.outputs import FinishReason
from llmservice_engine.core.request import NewRequest
from llmservice_engine.core.sampling_params import SamplingParams
from llmservice_engine.device import load
from llmservice_engine.device.load import Loaded
from llmservice_engine.engine import Engine
from safetensors.torch import load_file, save_file

from tests.engine.models import generating
from tests.engine.models.conftest import MakeCheckpoint
from tests.engine.models.generating import EngineSettings

PROMPTS = {f"prompt {n}": [(n * 13 + m * 7) % 90 for m in range(5 + 4 * n)] for n in range(12)}


@pytest.fixture
def small(checkpoint: MakeCheckpoint) -> Loaded:
    return load.load(EngineSettings(model=str(checkpoint()), dtype="float32"), lambda _: None)


def whole(loaded: Loaded) -> Engine:
    return Engine(loaded.runner, loaded.info, EngineSettings(model="shared"))


def alone(loaded: Loaded, params: dict[str, SamplingParams]) -> dict[str, tuple[int, ...]]:
    return {
        name: generating.texts(whole(loaded), {name: prompt}, params)[name]
        for name, prompt in PROMPTS.items()
    }


@pytest.mark.parametrize("temperature", [0, 0.8])
@pytest.mark.parametrize(
    ("blocks", "seqs", "budget"), [(200, 12, 7), (200, 12, 1), (6, 12, 200), (6, 3, 5)],
    ids=["small chunks", "a token at a time", "tiny cache", "all of it"],
)  # fmt: skip
def test_text_is_that_of_the_request_alone(
    small: Loaded, temperature: float, blocks: int, seqs: int, budget: int
) -> None:
    """Chunked prompts, preempted and resumed requests, any neighbours: the same tokens, each of them once."""
    params = {
        name: SamplingParams(max_tokens=20, temperature=temperature, top_p=0.95, seed=number)
        for number, name in enumerate(PROMPTS)
    }
    pressed = generating.squeezed(small, blocks=blocks, max_num_seqs=seqs, max_num_batched_tokens=budget)
    assert generating.texts(pressed, PROMPTS, params) == alone(small, params)
    assert (pressed.stats().preemptions > 0) is (blocks == 6)
    assert pressed.stats().kv_usage == 0


def test_what_a_request_wishes_counts_the_same_alone_and_after_preemptions(small: Loaded) -> None:
    """B10: penalties see each token once, though it is computed again."""
    wishes: tuple[dict[str, Any], ...] = (
        {"frequency_penalty": 1.5, "temperature": 0.0},
        {"presence_penalty": -1.0, "repetition_penalty": 1.3, "temperature": 0.0},
        {"bad_words": ((7,), (11, 12)), "temperature": 1.0},
        {"logit_bias": ((5, 4.0),), "min_p": 0.05, "temperature": 1.0},
        {"min_tokens": 15, "stop_token_ids": frozenset(range(0, 90, 2)), "temperature": 1.0},
    )
    params = {
        name: SamplingParams(max_tokens=20, seed=number, **wishes[number % len(wishes)])
        for number, name in enumerate(PROMPTS)
    }
    pressed = generating.squeezed(small, blocks=6, max_num_seqs=12, max_num_batched_tokens=50)
    assert generating.texts(pressed, PROMPTS, params) == alone(small, params)
    assert pressed.stats().preemptions > 1


def test_seeded_text_is_the_same_beside_unseeded_neighbours_in_every_run(small: Loaded) -> None:
    seeded = SamplingParams(max_tokens=20, temperature=1.0, seed=42)
    unseeded = SamplingParams(max_tokens=20, temperature=1.0)
    params = dict.fromkeys(PROMPTS, unseeded) | {"prompt 3": seeded}
    engine = whole(small)
    runs = [generating.texts(engine, PROMPTS, params) for _ in range(4)]
    assert len({run["prompt 3"] for run in runs}) == 1
    assert len({run["prompt 4"] for run in runs}) == 4, "unseeded text repeats itself"


def test_the_engines_seed_makes_unseeded_requests_repeatable(small: Loaded) -> None:
    params = SamplingParams(max_tokens=12, temperature=1.0)
    runs = [
        generating.texts(
            Engine(small.runner, small.info, EngineSettings(model="shared", seed=seed)), PROMPTS, params
        )
        for seed in (5, 5, 6)
    ]
    assert runs[0] == runs[1] != runs[2]


def test_top_k_of_one_equals_temperature_zero(small: Loaded) -> None:
    engine = whole(small)
    first = generating.texts(engine, PROMPTS, generating.greedy(20))
    second = generating.texts(
        engine, PROMPTS, SamplingParams(max_tokens=20, temperature=1.5, top_k=1, seed=1)
    )
    assert first == second


def test_first_delta_comes_after_the_whole_prompt_and_no_token_is_negative(small: Loaded) -> None:
    engine = generating.squeezed(small, blocks=100, max_num_batched_tokens=8)
    engine.add(NewRequest("a", tuple(range(30)), generating.greedy(3)))
    steps = []
    while engine.has_work:
        steps.append([token for delta in engine.step() for token in delta.token_ids])
    assert [len(tokens) for tokens in steps] == [0, 0, 0, 1, 1, 1]
    assert min(token for tokens in steps for token in tokens) >= 0


def test_logits_that_are_not_finite_end_that_request_and_no_other(checkpoint: MakeCheckpoint) -> None:
    """One token has a broken embedding; the blocks of its request are reused by healthy ones afterwards."""
    folder = checkpoint()
    healthy = generating.texts(generating.load(folder), PROMPTS, generating.greedy(12))
    said = {token for text in healthy.values() for token in text}
    broken_token = next(token for token in range(90, 96) if token not in said)
    tensors = load_file(folder / "model.safetensors")
    tensors["model.embed_tokens.weight"][broken_token] = float("nan")
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    engine = generating.load(folder)
    engine.add(NewRequest("broken", (1, broken_token, 3), generating.greedy(12)))
    for name, prompt in PROMPTS.items():
        engine.add(NewRequest(name, tuple(prompt), generating.greedy(12)))
    deltas = generating.drive(engine)
    (broken,) = [delta for delta in deltas if delta.request_id == "broken"]
    assert broken.finish_reason is FinishReason.ERROR
    assert broken.error is not None
    assert "not finite" in broken.error
    for name in PROMPTS:
        assert tuple(t for d in deltas if d.request_id == name for t in d.token_ids) == healthy[name]
    assert generating.texts(engine, PROMPTS, generating.greedy(12)) == healthy


def test_a_request_that_can_never_fit_is_refused_with_the_figures(small: Loaded) -> None:
    engine = whole(small)
    engine.check(100, 28)
    with pytest.raises(RequestTooLong, match="100 prompt tokens and 29 output tokens are 129") as caught:
        engine.check(100, 29)
    assert caught.value.figures == {"promptTokens": 100, "maxTokens": 29, "limitTokens": 128}
    assert "at most 28" in caught.value.hint
    with pytest.raises(RequestTooLong):
        engine.add(NewRequest("a", (1,) * 128, generating.greedy(1)))
    assert not engine.has_work


def test_a_request_larger_than_the_whole_cache_is_refused_and_a_short_one_is_served(small: Loaded) -> None:
    engine = generating.squeezed(small, blocks=3)
    with pytest.raises(RequestTooLong, match="the whole KV cache is 48 tokens"):
        engine.add(NewRequest("long", (1,) * 60, generating.greedy(1)))
    assert len(generating.texts(engine, {"short": [1, 2, 3]}, generating.greedy(45))["short"]) == 45


@pytest.mark.parametrize("prompt", [(), (1, 96), (-1, 2)])
def test_a_prompt_of_no_token_or_of_unknown_ones_is_refused(small: Loaded, prompt: tuple[int, ...]) -> None:
    engine = whole(small)
    with pytest.raises(RequestError, match="token ids from 0 to 95"):
        engine.add(NewRequest("a", prompt, generating.greedy(1)))


def test_an_id_in_use_is_refused_and_the_first_request_goes_on(small: Loaded) -> None:
    engine = whole(small)
    engine.add(NewRequest("a", (1, 2), generating.greedy(4)))
    with pytest.raises(RequestError, match="'a' is in use"):
        engine.add(NewRequest("a", (3, 4), generating.greedy(4)))
    assert sum(len(delta.token_ids) for delta in generating.drive(engine)) == 4


def test_info_tells_what_was_loaded(small: Loaded) -> None:
    info = small.info
    assert (info.vocabulary, info.max_model_len, info.block_size, info.dtype) == (96, 128, 16, "float32")
    assert info.kv_bytes == info.blocks * 16 * 2 * 2 * 2 * 8 * 4
    assert info.weight_bytes == info.parameters * 4


def test_steps_leave_no_gradient_behind(small: Loaded) -> None:
    generating.texts(whole(small), PROMPTS, generating.greedy(2))
    assert torch.is_grad_enabled()
