"""Quantised checkpoints say what the plain ones say for which they stand, and what is not served is named."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from llmservice_engine.core.errors import (
    InvalidSettings,
    StartupError,
    UnsupportedArchitecture,
    WeightsIncomplete,
)
from llmservice_engine.models import registry
from llmservice_planner import shape as model_shape
from safetensors.torch import load_file

from tests.engine.models import families, generating, quantizing, stepping
from tests.engine.models.families import FAMILIES, Family
from tests.engine.models.quantizing import Format
from tests.engine.models.stepping import Stepper

BOUND = 1e-4  # of logits in fp32
INT8 = {"num_bits": 8, "type": "int"}
INT4 = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32}
FLOAT8 = {"num_bits": 8, "type": "float"}
DYNAMIC = {"num_bits": 8, "type": "int", "strategy": "token", "dynamic": True}

FORMATS: dict[str, Callable[[], Format]] = {
    "fp8, blocks": lambda: quantizing.fp8_blocks(32),
    "fp8, blocks cut at the end": lambda: quantizing.fp8_blocks(40),
    "fp8, one scale": lambda: quantizing.fp8_rows(lambda rows: rows.max()),
    "fp8, one scale in a list, and one for activations": lambda: quantizing.fp8_rows(
        lambda rows: rows.max().reshape(1), input_scale=torch.tensor([0.1])
    ),
    "fp8, a scale a row": lambda: quantizing.fp8_rows(lambda rows: rows),
    "awq": lambda: quantizing.awq(32),
    "awq, small groups": lambda: quantizing.awq(16),
    "gptq": lambda: quantizing.gptq(4, 32),
    "gptq, symmetric": lambda: quantizing.gptq(4, 32, symmetric=True),
    "gptq, one group": lambda: quantizing.gptq(4, -1),
    "gptq, second version": lambda: quantizing.gptq(4, 32, version=2),
    "gptq, scattered groups": lambda: quantizing.gptq(4, 16, scattered=True),
    "gptq, 8 bits, scattered groups": lambda: quantizing.gptq(8, 32, scattered=True),
    "gptq, 8 bits, symmetric": lambda: quantizing.gptq(8, 32, symmetric=True),
    "compressed-tensors, w4a16": lambda: quantizing.compressed("pack-quantized", **INT4),
    "compressed-tensors, w4a16, asymmetric": lambda: quantizing.compressed(
        "pack-quantized", **INT4, symmetric=False
    ),
    "compressed-tensors, w4a16, a scale a row": lambda: quantizing.compressed(
        "pack-quantized", num_bits=4, strategy="channel"
    ),
    "compressed-tensors, w8a16": lambda: quantizing.compressed("pack-quantized", **{**INT4, "num_bits": 8}),
    "compressed-tensors, w8a16, asymmetric": lambda: quantizing.compressed(
        "pack-quantized", **{**INT4, "num_bits": 8}, symmetric=False
    ),
    "compressed-tensors, w8a8": lambda: quantizing.compressed(
        "int-quantized", DYNAMIC, **INT8, strategy="channel"
    ),
    "compressed-tensors, w8a8, asymmetric": lambda: quantizing.compressed(
        "int-quantized", DYNAMIC, **INT8, strategy="channel", symmetric=False
    ),
    "compressed-tensors, fp8, a scale a row": lambda: quantizing.compressed(
        "float-quantized", {**DYNAMIC, "type": "float"}, **FLOAT8, strategy="channel"
    ),
    "compressed-tensors, fp8, one scale": lambda: quantizing.compressed(
        "float-quantized", {**FLOAT8, "strategy": "tensor", "dynamic": False}, **FLOAT8, strategy="tensor"
    ),
    "compressed-tensors, fp8, blocks": lambda: quantizing.compressed(
        "float-quantized", **FLOAT8, strategy="block", block_structure=[32, 32]
    ),
}
OTHER_FAMILIES = ("qwen3 moe", "mixtral", "phi3", "llama, biases and wide heads")
PROMPT = list(range(3, 40))


def logits(folder: Path) -> torch.Tensor:
    return stepping.in_pieces(Stepper(folder), {"only": PROMPT}, 1000)["only"]


def assert_stands_for_the_plain_one(quantised: Path) -> None:
    wanted = families.logits_of(families.reference(quantised.parent / "plain"), PROMPT)
    torch.testing.assert_close(logits(quantised), wanted, rtol=0, atol=BOUND)


@pytest.mark.parametrize("name", FORMATS)
def test_logits_are_those_of_the_plain_checkpoint(name: str, tmp_path: Path) -> None:
    assert_stands_for_the_plain_one(quantizing.write(FAMILIES["llama"], FORMATS[name](), tmp_path))


@pytest.mark.parametrize("name", ["fp8, blocks", "awq", "gptq", "compressed-tensors, w4a16"])
@pytest.mark.parametrize("family", OTHER_FAMILIES)
def test_experts_merged_matrices_and_biases_are_quantised_too(family: str, name: str, tmp_path: Path) -> None:
    kind = FAMILIES[family]
    sizes = {"moe_intermediate_size": 32} if family == "qwen3 moe" else {}
    changed = Family(kind.kind, {**kind.config, **sizes, "head_dim": 16})
    assert_stands_for_the_plain_one(quantizing.write(changed, FORMATS[name](), tmp_path))


@pytest.mark.parametrize("name", ["fp8, blocks", "compressed-tensors, w4a16", "compressed-tensors, w8a16"])
def test_logits_are_those_of_transformers_own_loader(name: str, tmp_path: Path) -> None:
    """Nothing of ours made the reference here but the file."""
    folder = quantizing.write(FAMILIES["llama"], FORMATS[name](), tmp_path)
    wanted = families.logits_of(families.reference(folder), PROMPT)
    torch.testing.assert_close(logits(folder), wanted, rtol=0, atol=BOUND)
