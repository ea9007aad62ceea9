"""GGUF files are read as they are: logits, configuration and refusals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType as Kind
from llmservice_engine.core.errors import (
    InvalidSettings,
    ModelNotFound,
    StartupError,
    UnsupportedArchitecture,
    WeightsIncomplete,
)
from transformers import AutoModelForCausalLM

from tests.engine.models import families, generating, gguf_files, stepping
from tests.engine.models.gguf_files import FAMILIES
from tests.engine.models.stepping import Stepper

BOUND = 1e-4  # of logits in fp32
PROMPT = list(range(3, 40))


def logits(file: Path) -> torch.Tensor:
    return stepping.in_pieces(Stepper(file), {"only": PROMPT}, 1000)["only"]


@pytest.mark.parametrize("name", FAMILIES)
def test_a_plain_file_says_what_its_safetensors_say(name: str, tmp_path: Path) -> None:
    assert_like_its_safetensors(gguf_files.write(name, Kind.F32, tmp_path))


OTHER_KINDS = (Kind.F16, Kind.BF16, Kind.Q4_0, Kind.Q4_1, Kind.Q5_K)


@pytest.mark.parametrize(
    "kind",
    [Kind.Q8_0, Kind.Q4_K, Kind.Q6_K, *(pytest.param(one, marks=pytest.mark.full) for one in OTHER_KINDS)],
)
def test_every_type_says_what_transformers_reads(kind: Kind, tmp_path: Path) -> None:
    file = gguf_files.write("llama", kind, tmp_path)
    reference = AutoModelForCausalLM.from_pretrained(
        tmp_path, gguf_file=file.name, dtype=torch.float32, attn_implementation="eager"
    )
    torch.testing.assert_close(logits(file), families.logits_of(reference, PROMPT), rtol=0, atol=BOUND)


@pytest.mark.parametrize("kind", ["linear", "yarn"])
def test_scaled_positions_are_read_from_the_metadata(kind: str, tmp_path: Path) -> None:
    scaled = {"rope_type": kind, "rope_theta": 500.0, "factor": 4.0, "original_max_position_embeddings": 16}
    file = gguf_files.write(
        "llama",
        Kind.F32,
        tmp_path,
        {"rope_parameters": scaled},
        **{
            "llama.rope.scaling.type": kind,
            "llama.rope.scaling.factor": 4.0,
            "llama.rope.scaling.original_context_length": 16,
        },
    )
    assert_like_its_safetensors(file)


def test_divisors_of_frequencies_are_read_from_their_tensor(tmp_path: Path) -> None:
    """Llama 3.1 and later: the metadata say nothing of them."""
    plain = {"rope_parameters": {"rope_type": "default", "rope_theta": 500.0}}
    scaled = families.LLAMA3
    models = [
        families.reference(families.write(gguf_files.changed("llama", more), tmp_path / str(number)))
        for number, more in enumerate((plain, scaled))
    ]
    kept, slowed = (model.model.rotary_emb.inv_freq for model in models)
    divisors = (kept / slowed).numpy().astype(np.float32)
    assert divisors.max() > 7
    assert_like_its_safetensors(gguf_files.write("llama", Kind.F32, tmp_path, scaled, divisors))


def assert_like_its_safetensors(file: Path) -> None:
    wanted = families.logits_of(families.reference(file.parent / "plain"), PROMPT)
    torch.testing.assert_close(logits(file), wanted, rtol=0, atol=BOUND)


def refusal(model: Path, kind: type[StartupError], **settings: Any) -> StartupError:
    with pytest.raises(StartupError) as caught:
        generating.load(model, **settings)
    assert type(caught.value) is kind, caught.value
    assert caught.value.hint
    return caught.value


@pytest.mark.parametrize("keep", [0, 3, 30, 500, 0.5, -1000])
def test_a_truncated_file_is_named(keep: float, tmp_path: Path) -> None:
    file = gguf_files.write("llama", Kind.Q8_0, tmp_path)
    whole = file.read_bytes()
    file.write_bytes(whole[: int(len(whole) * keep) if keep == 0.5 else int(keep)])
    assert str(file) in refusal(file, WeightsIncomplete).message


@pytest.mark.parametrize(
    ("change", "error", "named"),
    [
        ({"general.architecture": "mamba"}, UnsupportedArchitecture, "general.architecture 'mamba'"),
        ({"split.count": 3}, UnsupportedArchitecture, "one of 3 parts"),
        ({"llama.block_count": None}, WeightsIncomplete, "llama.block_count"),
        ({"llama.block_count": 3}, WeightsIncomplete, "lacks 9 of"),
        ({"llama.block_count": 1}, UnsupportedArchitecture, "blk.1."),
        ({"llama.feed_forward_length": 500}, WeightsIncomplete, "[256, 512], the configuration asks for [256, 500]"),
        ({"llama.rope.dimension_count": 32}, UnsupportedArchitecture, "llama.rope.dimension_count 32"),
        ({"llama.attention.head_count": [4, 2]}, UnsupportedArchitecture, "differs from layer to layer"),
        ({"llama.rope.scaling.type": "longrope", "llama.rope.scaling.factor": 2.0}, UnsupportedArchitecture,
         "longrope"),
    ],
)  # fmt: skip
def test_what_a_file_lacks_or_has_too_much_of_is_named(
    change: dict[str, Any], error: type[StartupError], named: str, tmp_path: Path
) -> None:
    assert named in refusal(gguf_files.write("llama", Kind.F32, tmp_path, **change), error).message


@pytest.mark.parametrize("count", [3, 5])
def test_another_number_of_experts_is_refused_with_both_figures(count: int, tmp_path: Path) -> None:
    file = gguf_files.write("qwen3moe", Kind.F32, tmp_path, **{"qwen3moe.expert_count": count})
    message = refusal(file, WeightsIncomplete).message
    assert f"is of 4 experts, the configuration asks for {count}" in message


def test_a_type_that_is_not_read_is_named_with_its_tensor(tmp_path: Path) -> None:
    file = gguf_files.write("llama", Kind.F32, tmp_path)
    content = bytearray(file.read_bytes())
    name = b"blk.1.ffn_down.weight"
    place = content.index(name) + len(name) + 4 + 2 * 8  # dimensions, each one's size
    content[place : place + 4] = int(Kind.I32).to_bytes(4, "little")  # as wide as it was
    file.write_bytes(content)
    message = refusal(file, UnsupportedArchitecture).message
    assert message == f"blk.1.ffn_down.weight in {file} is of type I32, which is not read"


def test_a_folder_with_one_file_is_that_file_and_with_two_is_refused(tmp_path: Path) -> None:
    file = gguf_files.write("llama", Kind.F32, tmp_path)
    for settings in ({}, {"load_format": "gguf"}, {"quantization": "gguf"}):
        assert generating.load(tmp_path, **settings).info.vocabulary == 96
    (tmp_path / "other.gguf").write_bytes(b"")
    assert "holds 2 GGUF files: other.gguf, tiny.gguf" in refusal(tmp_path, ModelNotFound).message
    assert generating.load(file).info.vocabulary == 96


def test_flags_that_contradict_the_file_are_refused(tmp_path: Path) -> None:
    file = gguf_files.write("llama", Kind.F32, tmp_path)
    plain = tmp_path / "plain"
    assert "GGUF" in refusal(file, InvalidSettings, load_format="safetensors").message
    assert "says gguf" in refusal(file, InvalidSettings, quantization="awq").message
    assert "is not quantised" in refusal(plain, InvalidSettings, quantization="gguf").message
    assert "holds no GGUF file" in refusal(plain, ModelNotFound, load_format="gguf").message


def test_a_config_beside_the_file_counts_where_it_is_whole(tmp_path: Path) -> None:
    file = gguf_files.write("llama", Kind.F32, tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    assert generating.load(file).info.max_model_len == 128
    config = json.loads((tmp_path / "plain" / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "max_position_embeddings": 64}))
    assert generating.load(file).info.max_model_len == 64


def test_the_planner_counts_the_weights_as_they_are_held(tmp_path: Path) -> None:
    """Dequantised."""
    info = generating.load(gguf_files.write("llama", Kind.Q4_0, tmp_path)).info
    assert info.weight_bytes == 4 * info.parameters
