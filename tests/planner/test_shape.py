"""Shapes: what a config.json says, against what is published about the model."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from llmservice_planner import known, shape

# Parameters as the hub's safetensors metadata, or the model's report, give them.
PUBLISHED = {
    "SmolLM2-135M": 134_515_008,
    "SmolLM2-1.7B": 1_711_376_384,
    "Llama-3.2-1B": 1_235_814_400,
    "Llama-3.2-3B": 3_212_749_824,
    "Llama-3.1-8B": 8_030_261_248,
    "Llama-3.1-70B": 70_553_706_496,
    "Llama-3.3-70B": 70_553_706_496,
    "Mistral-7B-v0.3": 7_248_023_552,
    "Mixtral-8x7B-v0.1": 46_702_792_704,
    "Qwen2.5-0.5B": 494_032_768,
    "Qwen2.5-7B": 7_615_616_512,
    "Qwen2.5-32B": 32_763_876_352,
    "Qwen2.5-72B": 72_706_203_648,
    "Qwen3-8B": 8_190_735_360,
    "Qwen3-32B": 32_762_123_264,
    "Qwen3-30B-A3B": 30_532_122_624,
    "gemma-2-9b": 9_241_705_984,
    "gemma-2-27b": 27_227_128_320,
    "gemma-3-12b": 12_187_325_040,  # its eye included
    "Phi-3.5-mini": 3_821_079_552,
    "Phi-4-mini": 3_836_021_760,
    "phi-4": 14_659_507_200,
    "OLMo-2-7B": 7_298_617_344,
    "granite-3.3-8b": 8_170_864_640,
    "SmolLM3-3B": 3_075_098_624,
    "gpt-oss-20b": 20_914_757_184,
    "gpt-oss-120b": 116_829_156_672,
    "DeepSeek-V3": 671_026_419_200,  # without the layer that predicts two tokens at once
}


def of(name: str, **changes: Any) -> shape.ModelShape:
    return shape.from_config({**known.MODELS[name], **changes})


@pytest.mark.parametrize("name", known.MODELS)
def test_a_known_model_has_its_published_number_of_parameters(name: str) -> None:
    assert of(name).parameters() == PUBLISHED[name]


@pytest.mark.parametrize(
    ("name", "kib"),
    [
        ("Llama-3.1-8B", 128),  # 2 x 32 layers x 8 heads x 128 x 2 bytes
        ("Llama-3.1-70B", 320),  # 2 x 80 x 8 x 128 x 2
        ("SmolLM2-135M", 22.5),  # 2 x 30 x 3 x 64 x 2
        ("Qwen2.5-7B", 56),  # 2 x 28 x 4 x 128 x 2
        ("DeepSeek-V3", 68.625),  # (512 + 64) x 61 layers x 2 bytes: the famous 70 KB
    ],
)
def test_a_tokens_share_of_the_cache_is_that_of_the_literature(name: str, kib: float) -> None:
    assert of(name).kv_bytes_per_token("bfloat16") == kib * 1024


def test_a_cache_in_fp8_takes_half_of_one_in_bf16() -> None:
    assert of("Llama-3.1-8B").kv_bytes_per_token("fp8") == 64 * 1024


@pytest.mark.parametrize(
    ("name", "window", "sliding", "layers"),
    [
        ("gemma-2-9b", 4096, 21, 42),
        ("gemma-3-12b", 1024, 40, 48),
        ("gpt-oss-20b", 128, 12, 24),
        ("gpt-oss-120b", 128, 18, 36),
        ("Mistral-7B-v0.3", None, 0, 32),
        ("Qwen2.5-7B", None, 0, 28),
    ],
)
def test_the_layers_that_slide_are_those_of_the_models_report(
    name: str, window: int | None, sliding: int, layers: int
) -> None:
    found = of(name)
    assert (found.window, found.window_layers, found.layers) == (window, sliding, layers)


def test_layers_that_the_file_lists_count_before_the_familys_rule() -> None:
    kinds = ["full_attention"] * 41 + ["sliding_attention"]
    assert of("gemma-2-9b", layer_types=kinds).window_layers == 1


def test_the_first_mistral_slides_in_every_layer() -> None:
    assert of("Mistral-7B-v0.3", sliding_window=4096).window_layers == 32


def test_qwens_window_counts_only_where_it_is_switched_on() -> None:
    asked = {"sliding_window": 4096, "max_window_layers": 20}
    assert of("Qwen2.5-7B", **asked).window_layers == 0
    assert of("Qwen2.5-7B", **asked, use_sliding_window=True).window_layers == 8


def test_a_qwen3_with_experts_slides_in_every_layer_where_its_window_is_switched_on() -> None:
    """As in transformers, which passes ``max_window_layers`` over for this family."""
    asked = {"sliding_window": 4096, "max_window_layers": 20, "use_sliding_window": True}
    assert of("Qwen3-30B-A3B", **asked).window_layers == 48


def test_smollm3s_layers_without_rotation_are_every_fourth_or_those_that_are_marked() -> None:
    assert shape.unrotated_layers({}, 9) == {3, 7}
    assert shape.unrotated_layers({"no_rope_layers": [1, 0, 1, 0]}, 3) == {1}
    with pytest.raises(shape.ShapeError, match="no_rope_layers must list num_hidden_layers"):
        shape.unrotated_layers({"no_rope_layers": [1]}, 3)


YARN = {"factor": 4.0, "original_max_position_embeddings": 32_768}


@pytest.mark.parametrize(
    ("name", "changes", "context"),
    [
        # As the makers of Qwen tell people to switch it on, in the older spelling and in the newer one.
        ("Qwen2.5-7B", {"rope_scaling": {"type": "yarn", **YARN}}, 131_072),
        ("Qwen3-8B", {"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e6, **YARN}}, 131_072),
        ("SmolLM2-135M", {"rope_scaling": {"type": "dynamic", "factor": 2.0}}, 16_384),
        ("SmolLM2-135M", {"rope_scaling": {"type": "linear", "factor": 2.5}}, 20_480),
        # These have the scaled length in max_position_embeddings.
        ("Llama-3.1-8B", {"rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, 131_072),
        ("Phi-3.5-mini", {"rope_scaling": {"type": "longrope", "factor": 32.0}}, 131_072),
        ("gemma-3-12b", {"rope_scaling": {"rope_type": "linear", "factor": 8.0}}, 131_072),
        (
            "DeepSeek-V3",
            {
                "rope_scaling": {
                    "type": "yarn",
                    **YARN,
                    "factor": 40,
                    "original_max_position_embeddings": 4096,
                }
            },
            163_840,
        ),
        # What makes no sense changes nothing.
        ("SmolLM2-135M", {"rope_scaling": {"type": "yarn", "factor": float("inf")}}, 8192),
        ("SmolLM2-135M", {"rope_scaling": {"type": "yarn", "factor": "4"}}, 8192),
        ("SmolLM2-135M", {"rope_scaling": "yarn"}, 8192),
    ],
)
def test_the_longest_length_follows_from_how_positions_are_scaled(
    name: str, changes: dict[str, Any], context: int
) -> None:
    assert of(name, **changes).context == context


def test_an_untied_head_is_a_second_matrix_of_the_vocabulary() -> None:
    tied, untied = of("SmolLM2-135M"), of("SmolLM2-135M", tie_word_embeddings=False)
    assert untied.parameters() - tied.parameters() == 49_152 * 576


def test_llamas_biases_are_counted() -> None:
    plain, biased = of("Llama-3.2-1B"), of("Llama-3.2-1B", attention_bias=True, mlp_bias=True)
    attention = 2048 + 512 + 512 + 2048  # q, k, v, o
    feed = 8192 + 8192 + 2048  # gate, up, down
    assert biased.parameters() - plain.parameters() == 16 * (attention + feed)


def test_a_nested_text_config_is_the_decoders() -> None:
    text = {key: value for key, value in known.MODELS["gemma-3-12b"].items() if key != "vision_config"}
    nested = {"architectures": ["Gemma3ForConditionalGeneration"], "text_config": text}
    assert shape.from_config(nested).parameters() == 11_766_034_176  # the text model on its own
    eye = known.MODELS["gemma-3-12b"]["vision_config"]
    assert shape.from_config({**nested, "vision_config": eye}).parameters() == PUBLISHED["gemma-3-12b"]


def test_overrides_reach_a_nested_text_config_or_replace_it() -> None:
    nested = {"vocab_size": 5, "text_config": {"vocab_size": 7, "hidden_size": 8}}
    told = shape.text_fields(shape.overridden(nested, {"vocab_size": 9}))
    assert (told["vocab_size"], told["hidden_size"]) == (9, 8)
    other = {"text_config": {"vocab_size": 3}}
    assert shape.overridden(nested, other) == {"vocab_size": 5, **other}
    assert shape.overridden({"vocab_size": 5}, {"vocab_size": 9}) == {"vocab_size": 9}


def test_what_gemma3s_published_file_leaves_out_is_known() -> None:
    """gemma-3-4b-it's text_config has these five fields and no more that count; its model has 4,300,079,472 weights."""
    text = {
        "hidden_size": 2560, "intermediate_size": 10_240, "num_hidden_layers": 34, "sliding_window": 1024,
        "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
    }  # fmt: skip
    eye = known.MODELS["gemma-3-12b"]["vision_config"]
    config = {"architectures": ["Gemma3ForConditionalGeneration"], "text_config": text, "vision_config": eye}
    found = shape.from_config(config)
    assert (found.parameters(), found.window_layers, found.context) == (4_300_079_472, 29, 131_072)


def test_dense_layers_among_experts_are_counted_as_such() -> None:
    sparse = of("Qwen3-30B-A3B")
    mixed = of("Qwen3-30B-A3B", mlp_only_layers=[0, 3])
    experts = 128 * 3 * 2048 * 768 + 128 * 2048  # and the router
    assert sparse.parameters() - mixed.parameters() == 2 * (experts - 3 * 2048 * 6144)


def test_what_is_served_can_be_sized() -> None:
    assert set(shape.SUPPORTED_ARCHITECTURES) <= set(shape.SIZED_ARCHITECTURES)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"architectures": ["MambaForCausalLM"]},
            "MambaForCausalLM cannot be sized; known: LlamaForCausalLM",
        ),
        ({"architectures": None}, "architecture (none) cannot be sized"),
        ({"num_hidden_layers": None}, "num_hidden_layers is None"),
        ({"num_hidden_layers": 10**9}, "at most 65536"),
        ({"vocab_size": "many"}, "vocab_size is 'many'"),
        ({"hidden_size": -1}, "hidden_size is -1"),
        ({"num_key_value_heads": 2}, "9 is not a multiple of num_key_value_heads 2"),
        ({"layer_types": ["full_attention"]}, "layer_types must list num_hidden_layers (30) kinds"),
        (
            {"quantization_config": {"quant_method": "aqlm"}},
            "quantization 'aqlm' cannot be sized; known: awq",
        ),
        ({"quantization_config": {"quant_method": "gptq"}}, "quantization_config of gptq: bits is None"),
    ],
)
def test_a_config_without_a_shape_is_refused_by_the_fields_name(change: dict[str, Any], said: str) -> None:
    with pytest.raises(shape.ShapeError, match=r".") as refusal:
        of("SmolLM2-135M", **change)
    assert said in str(refusal.value)


def test_reading_a_config_leaves_it_as_it_was() -> None:
    before = copy.deepcopy(dict(known.MODELS["gpt-oss-20b"]))
    of("gpt-oss-20b")
    assert known.MODELS["gpt-oss-20b"] == before
