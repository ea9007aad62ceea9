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
from llmservice_engine.ops import quantized
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
    "fp8, blocks, scales of 8 bits": lambda: quantizing.fp8_blocks(32, powers=True),
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
@pytest.mark.parametrize(
    "family", [OTHER_FAMILIES[0], *(pytest.param(one, marks=pytest.mark.full) for one in OTHER_FAMILIES[1:])]
)
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


@pytest.mark.parametrize(
    "name",
    [
        "fp8, blocks cut at the end", "awq", "gptq, scattered groups", "compressed-tensors, w4a16, asymmetric",
        "compressed-tensors, w8a8, asymmetric",
    ],
)  # fmt: skip
def test_a_weight_may_come_in_pieces(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quantized, "PIECE", 700)
    assert_stands_for_the_plain_one(quantizing.write(FAMILIES["llama"], FORMATS[name](), tmp_path))


@pytest.mark.parametrize("name", FORMATS)
def test_the_planner_counts_what_the_weights_take(name: str, tmp_path: Path) -> None:
    folder = quantizing.write(FAMILIES["llama"], FORMATS[name](), tmp_path)
    config = json.loads((folder / "config.json").read_text())
    shape = model_shape.from_config(config)
    targets = registry.build(shape, config, torch.float32, "cpu").targets()
    taken = sum(target.numel() * target.element_size() for target in targets.values())
    assert taken == shape.weight_bytes("float32")


LEFT_OUT = {
    "fp8, blocks": "modules_to_not_convert",
    "awq": "modules_to_not_convert",
    "gptq": "modules_to_not_convert",
    "compressed-tensors, w8a16": "ignore",
}


@pytest.mark.parametrize("name", LEFT_OUT)
@pytest.mark.parametrize("entry", ["model.layers.1.self_attn.k_proj", "model.layers.0"])
def test_modules_that_are_left_out_stay_plain_even_within_a_merged_product(
    name: str, entry: str, tmp_path: Path
) -> None:
    form = FORMATS[name]()
    changed = Format({**form.config, LEFT_OUT[name]: ["lm_head", entry]}, form.quantise)
    folder = quantizing.write(
        FAMILIES["llama"], changed, tmp_path, lambda module: f"{module}.".startswith(f"{entry}.")
    )
    assert_stands_for_the_plain_one(folder)


def test_a_head_may_be_quantised(tmp_path: Path) -> None:
    form = FORMATS["compressed-tensors, w4a16"]()
    folder = quantizing.write(
        FAMILIES["llama"], Format({**form.config, "ignore": []}, form.quantise), tmp_path
    )
    tensors = load_file(folder / "model.safetensors")
    stored, plain = form.quantise(tensors.pop("lm_head.weight"))
    quantizing.save({**tensors, **{f"lm_head.{kind}": one for kind, one in stored.items()}}, folder)
    whole = load_file(tmp_path / "plain" / "model.safetensors")
    quantizing.save({**whole, "lm_head.weight": plain}, tmp_path / "plain")
    assert_stands_for_the_plain_one(folder)


def test_biases_of_noughts_where_the_model_has_none_are_passed_over(tmp_path: Path) -> None:
    folder = quantizing.write(FAMILIES["llama"], FORMATS["gptq"](), tmp_path)
    tensors = load_file(folder / "model.safetensors")
    quantizing.save({**tensors, "model.layers.0.mlp.up_proj.bias": torch.zeros(96)}, folder)
    assert_stands_for_the_plain_one(folder)
    quantizing.save({**tensors, "model.layers.0.mlp.up_proj.bias": torch.ones(96)}, folder)
    assert "model.layers.0.mlp.up_proj.bias" in refusal(folder, UnsupportedArchitecture).message


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", ["fp8, blocks", "awq", "compressed-tensors, w4a16"])
def test_other_types_say_nearly_what_fp32_says(name: str, dtype: str, tmp_path: Path) -> None:
    """Rounding may part texts at near ties, so only first tokens are compared."""
    folder = quantizing.write(FAMILIES["llama"], FORMATS[name](), tmp_path)
    prompts = {str(n): [(n * 13 + m * 7) % 96 for m in range(5 + 4 * n)] for n in range(12)}
    exact, rounded = (
        generating.texts(generating.load(folder, dtype=kind), prompts, generating.greedy(1))
        for kind in ("float32", dtype)
    )
    assert sum(exact[name] == rounded[name] for name in prompts) >= 10


def refusal(folder: Path, kind: type[StartupError], **settings: Any) -> StartupError:
    with pytest.raises(StartupError) as caught:
        generating.load(folder, **settings)
    assert type(caught.value) is kind, caught.value
    assert caught.value.hint
    return caught.value


@pytest.mark.parametrize(
    ("name", "change", "named"),
    [
        ("awq", {"bits": 8}, "bits 8 is not served; served: 4"),
        ("awq", {"version": "gemv"}, "version 'gemv' is not served; served: gemm"),
        ("awq", {"zero_point": False}, "zero_point False"),
        ("awq", {"group_size": 48}, "quantised in groups of 48"),
        ("gptq", {"bits": 3}, "bits 3 is not served; served: 4, 8"),
        ("gptq", {"checkpoint_format": "marlin"}, "checkpoint_format 'marlin' is not served; served: gptq"),
        ("gptq", {"dynamic": {"+:.*down.*": {"bits": 8}}}, "dynamic"),
        ("gptq", {"group_size": 40}, "quantised in groups of 40"),
        ("fp8, blocks", {"fmt": "e5m2"}, "fmt 'e5m2' is not served; served: e4m3"),
        ("fp8, blocks", {"quant_method": "bitsandbytes"}, "quant_method 'bitsandbytes' is not served"),
        ("fp8, blocks", {"quant_method": "exl2"}, "served: awq, compressed-tensors, fp8, gptq"),
        ("fp8, blocks", {"weight_block_size": [128]}, "[128]"),
        ("compressed-tensors, w4a16", {"format": "nvfp4-pack-quantized"}, "format 'nvfp4-pack-quantized'"),
        ("compressed-tensors, w4a16", {"format": "float-quantized"}, "type of float-quantized weights 'int'"),
        ("compressed-tensors, w4a16", {"sparsity_config": {"format": "sparse-24-bitmask"}}, "sparse-24-bitmask"),
        ("compressed-tensors, w4a16", {"transform_config": {"config_groups": {"a": 1}}}, "transform_config"),
    ],
)  # fmt: skip
def test_what_is_not_served_is_named_with_what_is(
    name: str, change: dict[str, Any], named: str, tmp_path: Path
) -> None:
    form = FORMATS[name]()
    folder = quantizing.write(FAMILIES["llama"], Format({**form.config, **change}, form.quantise), tmp_path)
    assert named in refusal(folder, UnsupportedArchitecture).message


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"num_bits": 2}, "num_bits 2 is not served; served: 4, 8"),
        ({"strategy": "tensor_group"}, "tensor_group"),
        ({"group_size": 40}, "quantised in groups of 40"),
    ],
)
def test_a_scheme_of_compressed_tensors_that_is_not_served_is_named(
    change: dict[str, Any], named: str, tmp_path: Path
) -> None:
    form = FORMATS["compressed-tensors, w4a16"]()
    scheme = form.config["config_groups"]["group_0"]
    for groups, text in (
        ({"group_0": {**scheme, "weights": {**scheme["weights"], **change}}}, named),
        ({"group_0": scheme, "group_1": scheme}, "number of config_groups 2"),
        ({"group_0": {**scheme, "targets": ["re:.*mlp.*"]}}, "targets ['re:.*mlp.*']"),
    ):
        changed = Format({**form.config, "config_groups": groups}, form.quantise)
        folder = quantizing.write(FAMILIES["llama"], changed, tmp_path)
        assert text in refusal(folder, UnsupportedArchitecture).message


@pytest.mark.parametrize(
    "kind", ["gptq.qweight", "gptq.scales", "awq.qzeros", "fp8, blocks.weight_scale_inv"]
)
def test_a_tensor_too_few_or_of_another_shape_is_named(kind: str, tmp_path: Path) -> None:
    form, part = kind.split(".")
    folder = quantizing.write(FAMILIES["llama"], FORMATS[form](), tmp_path)
    whole = load_file(folder / "model.safetensors")
    name = f"model.layers.1.mlp.down_proj.{part}"
    quantizing.save({key: one for key, one in whole.items() if key != name}, folder)
    error = refusal(folder, WeightsIncomplete)
    assert name in error.message
    assert error.figures == {"missingTensors": 1}
    quantizing.save({**whole, name: whole[name][:-1].clone()}, folder)
    message = refusal(folder, WeightsIncomplete).message
    assert f"{name} in {folder / 'model.safetensors'} has shape {list(whole[name][:-1].shape)}" in message
    assert str(list(whole[name].shape)) in message


def test_a_truncated_file_is_named(tmp_path: Path) -> None:
    file = quantizing.write(FAMILIES["llama"], FORMATS["awq"](), tmp_path) / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])
    assert str(file) in refusal(file.parent, WeightsIncomplete).message


def test_a_group_that_there_is_not_is_named(tmp_path: Path) -> None:
    folder = quantizing.write(FAMILIES["llama"], FORMATS["gptq, scattered groups"](), tmp_path)
    tensors = load_file(folder / "model.safetensors")
    tensors["model.layers.2.mlp.up_proj.g_idx"][5] = 9
    quantizing.save(tensors, folder)
    message = refusal(folder, WeightsIncomplete).message
    assert message == "the group index of model.layers.2.mlp.up_proj goes from 0 to 9, there are 4 groups"


@pytest.mark.parametrize("name", ["fp8, one scale", "compressed-tensors, w8a8", "gptq"])
def test_quantised_weights_under_a_config_that_does_not_say_so_are_refused(name: str, tmp_path: Path) -> None:
    folder = quantizing.write(FAMILIES["llama"], FORMATS[name](), tmp_path)
    (folder / "config.json").write_text((tmp_path / "plain" / "config.json").read_text())
    assert "quantization_config" in refusal(folder, UnsupportedArchitecture).hint


@pytest.mark.parametrize(
    ("name", "asked", "said"),
    [("awq", "gptq", "says awq"), ("gptq", "fp8", "says gptq"), (None, "fp8", "is not quantised")],
)
def test_a_flag_that_contradicts_the_checkpoint_is_refused_with_both_names(
    name: str | None, asked: str, said: str, tmp_path: Path
) -> None:
    folder = quantizing.write(FAMILIES["llama"], FORMATS[name or "awq"](), tmp_path)
    error = refusal(folder if name else tmp_path / "plain", InvalidSettings, quantization=asked)
    assert f"--quantization {asked}: the checkpoint {said}" in error.message


@pytest.mark.parametrize("asked", ["awq", "awq_marlin", None])
def test_a_flag_that_agrees_is_taken_also_by_a_kernels_name(asked: str | None, tmp_path: Path) -> None:
    folder = quantizing.write(FAMILIES["llama"], FORMATS["awq"](), tmp_path)
    assert generating.load(folder, quantization=asked).info.dtype == "float32"


def test_random_weights_need_no_file(tmp_path: Path) -> None:
    folder = quantizing.write(FAMILIES["llama"], FORMATS["gptq, scattered groups"](), tmp_path)
    (folder / "model.safetensors").unlink()
    engine = generating.load(folder, load_format="dummy")
    assert len(generating.texts(engine, {"only": PROMPT}, generating.greedy(3))["only"]) == 3
