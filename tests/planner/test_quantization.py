"""Quantised checkpoints: bytes against the sizes of published files, and by hand for one matrix."""

from __future__ import annotations

from typing import Any

import pytest
from llmservice_planner import known, quantization, shape

AWQ = {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True}
BNB4 = {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_use_double_quant": True}
FP8 = {"quant_method": "fp8"}
INT8 = {
    "quant_method": "compressed-tensors",
    "ignore": ["lm_head"],
    "config_groups": {"group_0": {"weights": {"num_bits": 8, "strategy": "channel", "symmetric": True}}},
}
INT4 = {
    "quant_method": "compressed-tensors",
    "ignore": ["lm_head"],
    "config_groups": {"group_0": {"weights": {"num_bits": 4, "strategy": "group", "group_size": 128}}},
}


@pytest.mark.parametrize(
    ("name", "config", "published_gb"),
    [
        # What the hub shows for the weight files together, in units of 10^9 bytes.
        ("Llama-3.1-8B", AWQ, 5.73),  # hugging-quants/Meta-Llama-3.1-8B-Instruct-AWQ-INT4: 4.68 + 1.05
        ("Llama-3.1-8B", BNB4, 5.70),  # unsloth/Meta-Llama-3.1-8B-bnb-4bit
        ("Llama-3.1-8B", FP8, 9.08),  # neuralmagic/Meta-Llama-3.1-8B-Instruct-FP8: 5.00 + 4.08
        ("Qwen2.5-7B", AWQ, 5.57),  # Qwen/Qwen2.5-7B-Instruct-AWQ: 3.99 + 1.58
        ("gpt-oss-20b", None, 13.76),  # openai/gpt-oss-20b: 12.8 GiB in the report
        ("gpt-oss-120b", None, 65.25),  # openai/gpt-oss-120b: 60.8 GiB in the report
    ],
)
def test_a_quantised_model_takes_what_its_files_take(
    name: str, config: dict[str, Any] | None, published_gb: float
) -> None:
    given = known.MODELS[name] if config is None else known.MODELS[name] | {"quantization_config": config}
    assert shape.from_config(given).weight_bytes("bfloat16") / 1e9 == pytest.approx(published_gb, rel=0.005)


@pytest.mark.parametrize(
    ("config", "by_hand"),
    [
        # A matrix of 256 rows (outputs) and 512 columns (inputs): 131,072 weights.
        (AWQ, 65_536 + 256 * 4 * 2 + 256 * 4 // 2),  # fp16 scale and 4-bit zero for each 128 columns
        ({**AWQ, "zero_point": False}, 65_536 + 256 * 4 * 2),
        ({"quant_method": "gptq", "bits": 4, "group_size": 128}, 65_536 + 2048 + 512),
        (
            {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": True},
            65_536 + 2048 + 512 + 512 * 4,  # and g_idx
        ),
        ({"quant_method": "gptq", "bits": 8, "group_size": -1}, 131_072 + 256 * 2 + 256),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, 65_536 + 2048 * 4),  # 2,048 blocks of 64
        (BNB4, 65_536 + 2048 + 2048 // 256 * 4),  # their scales in 8 bits, an fp32 for 256 of these
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, 131_072 + 256 * 4),
        (FP8, 131_072 + 256 * 4),  # a file's one scale is held by each row
        ({**FP8, "weight_block_size": [128, 128]}, 131_072 + 2 * 4 * 4),
        (INT8, 131_072 + 256 * 2),
        (INT4, 65_536 + 256 * 4 * 2),
        ({"quant_method": "mxfp4"}, 65_536 + 131_072 // 32),
    ],
)
def test_a_matrix_takes_what_the_format_says(config: dict[str, Any], by_hand: int) -> None:
    found = quantization.from_config({"quantization_config": config})
    assert found is not None
    assert found.matrix_bytes(256, 512) == by_hand


def test_embeddings_head_and_norms_stay_as_they_are() -> None:
    config = known.MODELS["Llama-3.1-8B"] | {"quantization_config": INT8}
    quantised = shape.from_config(config)
    linear = 32 * (4096 * 4096 * 2 + 2 * 4096 * 1024 + 3 * 4096 * 14_336)
    scales = 2 * 32 * (4096 + 1024 + 1024 + 4096 + 14_336 * 2 + 4096)
    rest = 2 * (quantised.parameters() - linear)
    assert quantised.weight_bytes("bfloat16") == linear + scales + rest


@pytest.mark.parametrize(
    "entry",
    ["model.layers.0.mlp.down_proj", "re:model\\.layers\\.0\\.mlp\\.down_proj$", "model.layers.0.mlp.d*"],
)
def test_a_module_that_is_left_out_stays_in_full(entry: str) -> None:
    def size(ignored: list[str]) -> int:
        config = known.MODELS["Llama-3.1-8B"] | {"quantization_config": {**INT8, "ignore": ignored}}
        return shape.from_config(config).weight_bytes("bfloat16")

    assert size(["lm_head", entry]) - size(["lm_head"]) == 4096 * 14_336 - 2 * 4096  # a byte more, no scales


def test_a_part_of_every_layer_can_be_left_out_by_its_name() -> None:
    config = known.MODELS["Llama-3.1-8B"] | {
        "quantization_config": {**FP8, "modules_to_not_convert": ["self_attn"]}
    }
    full, partly = (shape.from_config(c) for c in (known.MODELS["Llama-3.1-8B"], config))
    feed = 32 * 3 * 4096 * 14_336
    scales = 32 * 4 * (2 * 14_336 + 4096)
    assert full.weight_bytes("bfloat16") - partly.weight_bytes("bfloat16") == feed - scales


def test_scales_of_whole_numbers_are_of_the_models_type() -> None:
    found = quantization.from_config({"quantization_config": INT4})
    assert found is not None
    assert found.matrix_bytes(256, 512, 4) - found.matrix_bytes(256, 512, 2) == 256 * 4 * 2


@pytest.mark.parametrize(
    ("change", "quantised"),
    [
        ({}, {"self_attn.q_proj", "mlp.up_proj"}),
        ({"lm_head": True}, {"self_attn.q_proj", "mlp.up_proj", "lm_head"}),
        ({"modules_in_block_to_quantize": [["mlp.up_proj"]]}, {"mlp.up_proj"}),
        ({"dynamic": {"-:.*up_proj": {}}}, {"self_attn.q_proj"}),
        ({"modules_to_not_convert": ["self_attn"]}, {"mlp.up_proj"}),
    ],
)
def test_gptq_says_in_many_ways_what_is_quantised(change: dict[str, Any], quantised: set[str]) -> None:
    given = {"quant_method": "gptq", "bits": 4, "group_size": 128, **change}
    found = quantization.from_config({"quantization_config": given})
    assert found is not None
    modules = ("model.layers.3.self_attn.q_proj", "model.layers.3.mlp.up_proj", "lm_head")
    assert {one.removeprefix("model.layers.3.") for one in modules if not found.leaves_out(one)} == quantised


def test_a_model_without_quantisation_has_none() -> None:
    assert quantization.from_config({}) is None
