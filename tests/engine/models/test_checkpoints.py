"""Small checkpoints of every kind, as transformers writes them, against transformers' own text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from llmservice_engine.models import registry
from llmservice_planner import shape as model_shape
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from tests.engine.models import generating
from tests.engine.models.conftest import MakeCheckpoint

PROMPTS = {"short": [3, 1, 4, 1, 5], "long": [(7 * n) % 96 for n in range(60)]}
TOKENS = 24


@torch.inference_mode()
def reference_texts(folder: Path) -> dict[str, tuple[int, ...]]:
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    found = {}
    for name, prompt in PROMPTS.items():
        ids = torch.tensor([prompt])
        out = model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=TOKENS,
            do_sample=False,
            eos_token_id=None,
            pad_token_id=0,
        )
        found[name] = tuple(out[0, len(prompt) :].tolist())
    return found


def assert_served_right(folder: Path) -> None:
    got = generating.texts(generating.load(folder), PROMPTS, generating.greedy(TOKENS))
    assert got == reference_texts(folder)


def change_config(folder: Path, **changes: Any) -> None:
    file = folder / "config.json"
    config = json.loads(file.read_text()) | changes
    file.write_text(json.dumps({k: v for k, v in config.items() if v is not None}))


LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}


@pytest.mark.parametrize(
    "config",
    [
        {"tie_word_embeddings": False},
        {"tie_word_embeddings": True},
        {"num_key_value_heads": 4},
        {"num_key_value_heads": 1},
        {"head_dim": 16},
        {"attention_bias": True, "mlp_bias": True},
        {"rope_parameters": {"rope_type": "default", "rope_theta": 500.0}},
        {"rope_parameters": LLAMA3},
    ],
    ids=["untied", "tied", "own keys a head", "one key head", "wide heads", "biases", "theta", "llama3 rope"],
)
def test_text_equals_that_of_transformers(checkpoint: MakeCheckpoint, config: dict[str, Any]) -> None:
    assert_served_right(checkpoint(**config))


def test_several_files_load_like_one(checkpoint: MakeCheckpoint) -> None:
    folder = checkpoint(shard_size="20KB")
    assert len(list(folder.glob("*.safetensors"))) > 2
    assert_served_right(folder)


def test_tied_checkpoint_that_carries_the_head_once_more_loads(checkpoint: MakeCheckpoint) -> None:
    folder = checkpoint(tie_word_embeddings=True)
    tensors = load_file(folder / "model.safetensors")
    tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"].clone()
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    assert_served_right(folder)


def test_rope_theta_is_read_in_the_older_spelling_too(checkpoint: MakeCheckpoint) -> None:
    folder = checkpoint(rope_parameters={"rope_type": "default", "rope_theta": 500.0})
    wanted = reference_texts(folder)
    change_config(folder, rope_parameters=None, rope_theta=500.0, rope_scaling=None)
    assert generating.texts(generating.load(folder), PROMPTS, generating.greedy(TOKENS)) == wanted


def test_llama3_scaling_is_read_in_the_older_spelling_too(checkpoint: MakeCheckpoint) -> None:
    folder = checkpoint(rope_parameters=LLAMA3)
    wanted = reference_texts(folder)
    older = {key: value for key, value in LLAMA3.items() if key != "rope_theta"}
    change_config(folder, rope_parameters=None, rope_theta=10000.0, rope_scaling=older)
    assert generating.texts(generating.load(folder), PROMPTS, generating.greedy(TOKENS)) == wanted


def test_every_architecture_that_the_planner_serves_has_a_decoder() -> None:
    assert set(registry.DECODERS) == set(model_shape.SUPPORTED_ARCHITECTURES)


def test_dummy_weights_need_no_weight_files_and_are_the_same_for_the_same_seed(
    checkpoint: MakeCheckpoint,
) -> None:
    folder = checkpoint()
    (folder / "model.safetensors").unlink()
    first, second, other = (
        generating.texts(
            generating.load(folder, load_format="dummy", seed=seed), PROMPTS, generating.greedy(TOKENS)
        )
        for seed in (1, 1, 2)
    )
    assert first == second
    assert first != other


def test_auto_dtype_takes_the_checkpoints_type_or_what_the_processor_can(checkpoint: MakeCheckpoint) -> None:
    folder = checkpoint()
    assert generating.load(folder, dtype="auto").info.dtype == "float32"
    change_config(folder, dtype="bfloat16")
    flags = Path("/proc/cpuinfo").read_text().split()
    able = bool({"avx512_bf16", "amx_bf16", "bf16"} & set(flags))
    assert generating.load(folder, dtype="auto").info.dtype == ("bfloat16" if able else "float32")


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_every_dtype_serves_and_says_nearly_what_fp32_says(checkpoint: MakeCheckpoint, dtype: str) -> None:
    """Rounding may part texts at near ties, so only first tokens are compared."""
    folder = checkpoint()
    prompts = {str(n): [(n * 13 + m * 7) % 96 for m in range(5 + 4 * n)] for n in range(12)}
    exact, rounded = (
        generating.texts(generating.load(folder, dtype=kind), prompts, generating.greedy(1))
        for kind in ("float32", dtype)
    )
    assert sum(exact[name] == rounded[name] for name in prompts) >= 10


@pytest.mark.parametrize("settings", [{"block_size": 8}, {"block_size": 128}, {"max_num_batched_tokens": 1}])
def test_text_does_not_depend_on_block_size_or_budget(
    checkpoint: MakeCheckpoint, settings: dict[str, int]
) -> None:
    folder = checkpoint()
    got = generating.texts(generating.load(folder, **settings), PROMPTS, generating.greedy(TOKENS))
    assert got == reference_texts(folder)


def test_end_tokens_of_both_files_count(checkpoint: MakeCheckpoint) -> None:
    folder = checkpoint()
    change_config(folder, eos_token_id=[2, 5])
    (folder / "generation_config.json").write_text('{"eos_token_id": 7}')
    assert generating.load(folder).info.eos_token_ids == {2, 5, 7}
