"""Verdicts on declared devices."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llmservice_planner import fit, known
from llmservice_planner.fit import Device
from llmservice_planner.settings import EngineSettings

MIB = 2**20


def gpu(name: str, count: int = 1) -> Device:
    return Device(known.ACCELERATORS[name] * MIB, count, "gpu")


def judge(model: str, device: Device, weight_bytes: int | None = None, **settings: Any) -> fit.Fit:
    return fit.judge(known.MODELS[model], EngineSettings(model="m", **settings), device, weight_bytes)


@pytest.mark.parametrize(
    ("model", "device", "settings", "verdict"),
    [
        ("Llama-3.1-8B", gpu("H100-80GB"), {}, "Fits"),
        ("Llama-3.1-8B", gpu("L4"), {"max_model_len": 8192}, "Fits"),
        ("Llama-3.1-8B", gpu("L4"), {"max_model_len": 20_000}, "Tight"),
        ("Llama-3.1-8B", gpu("L4"), {}, "DoesNotFit"),  # 131,072 tokens take 16 GiB
        ("Llama-3.1-70B", gpu("H100-80GB"), {}, "DoesNotFit"),
        ("Llama-3.1-70B", gpu("H100-80GB", 4), {}, "Fits"),
        ("Llama-3.1-70B", gpu("H100-80GB", 4), {"tensor_parallel_size": 4}, "Fits"),
        ("gpt-oss-120b", gpu("H100-80GB"), {}, "Tight"),  # made for one of these
        ("gpt-oss-20b", Device(16 * 2**30, 1, "gpu"), {"max_model_len": 8192, "gpu_memory_utilization": 0.97}, "Fits"),
        ("SmolLM2-135M", Device(2 * 2**30, 1, "cpu"), {}, "Fits"),
        ("SmolLM2-135M", Device(2**30, 1, "cpu"), {"max_model_len": 2048, "max_num_seqs": 16}, "Fits"),
        ("SmolLM2-135M", Device(2**29, 1, "cpu"), {}, "DoesNotFit"),
        ("SmolLM2-135M", Device(0, 1, "gpu"), {}, "Unknown"),
    ],
)  # fmt: skip
def test_a_verdict(model: str, device: Device, settings: dict[str, Any], verdict: str) -> None:
    found = judge(model, device, **settings)
    assert found.verdict == verdict, found.message


def test_tight_is_a_cache_of_fewer_than_two_full_length_sequences() -> None:
    holds = judge(
        "Llama-3.1-8B", gpu("L4"), max_model_len=8192
    ).kv_tokens  # it grows a little with the length
    assert judge("Llama-3.1-8B", gpu("L4"), max_model_len=holds // 2 - 64).verdict == "Fits"
    assert judge("Llama-3.1-8B", gpu("L4"), max_model_len=holds // 2 + 64).verdict == "Tight"


def test_the_sentence_names_the_length_that_fits() -> None:
    refused = judge("Llama-3.1-8B", gpu("L4"))
    assert refused.message.startswith(
        "weights 15,317 MiB, activations 672 MiB and the KV cache of one sequence of 131,072 tokens 16,384 MiB need"
    )
    assert refused.required > refused.available
    assert refused.required == refused.weights + refused.activations + refused.kv_cache
    longest = fit.longest(known.MODELS["Llama-3.1-8B"], EngineSettings(model="m"), gpu("L4"))
    assert refused.message.endswith(f"try --max-model-len {longest} (the largest that fits)")
    assert judge("Llama-3.1-8B", gpu("L4"), max_model_len=longest).verdict == "Tight"
    assert judge("Llama-3.1-8B", gpu("L4"), max_model_len=longest + 1).verdict == "DoesNotFit"


@pytest.mark.parametrize("accelerator", known.ACCELERATORS)
@pytest.mark.parametrize("model", known.MODELS)
def test_the_next_move_that_a_refusal_names_does_help(model: str, accelerator: str) -> None:
    refused = judge(model, gpu(accelerator))
    if refused.verdict != "DoesNotFit":
        return
    words = refused.message.rpartition("; try ")[2].split()
    if words[0] == "--max-model-len":
        helped = judge(model, gpu(accelerator), max_model_len=int(words[1]))
    elif words[1] == "such":
        helped = judge(model, gpu(accelerator, int(words[0])))
        assert judge(model, gpu(accelerator, int(words[0]) // 2)).verdict == "DoesNotFit"
    else:
        more = int(words[0].replace(",", "")) * MIB
        helped = judge(model, Device(known.ACCELERATORS[accelerator] * MIB + more, 1, "gpu"))
    assert helped.verdict in ("Fits", "Tight"), refused.message


def test_the_size_of_the_files_corrects_the_weights() -> None:
    assert judge("Llama-3.1-8B", gpu("L4"), 9_080_000_000, max_model_len=8192).weights == 9_080_000_000
    converted = judge("Llama-3.1-8B", gpu("H200"), 16_060_522_496, dtype="float32", max_model_len=8192)
    assert converted.weights == 2 * 16_060_522_496


def test_more_devices_asked_for_than_there_are_is_refused() -> None:
    found = judge("Llama-3.1-8B", gpu("L4", 2), tensor_parallel_size=4)
    assert (found.verdict, found.message) == (
        "DoesNotFit",
        "--tensor-parallel-size 4 needs 4 devices, there are 2; try --tensor-parallel-size 2",
    )


def test_a_split_or_a_length_that_cannot_be_is_a_refusal_with_figures() -> None:
    assert "9 attention heads cannot be split over 2 devices" in judge("SmolLM2-135M", gpu("L4", 2)).message
    assert "limit of 8192 tokens" in judge("SmolLM2-135M", gpu("L4"), max_model_len=10_000).message


def test_an_architecture_that_cannot_be_sized_is_unknown_by_name() -> None:
    found = fit.judge({"architectures": ["MambaForCausalLM"]}, EngineSettings(model="m"), gpu("L4"))
    assert found.verdict == "Unknown"
    assert "MambaForCausalLM" in found.message


JUNK = st.one_of(
    st.none(), st.booleans(), st.integers(-2, 3), st.just(2**70), st.floats(), st.text(max_size=3),
    st.just([]), st.just(["x", 3]), st.just({}), st.just({"quant_method": 3}),
    st.fixed_dictionaries({"type": st.sampled_from(["yarn", 3]), "factor": st.sampled_from([4, "x", 1e308, -1])}),
    st.fixed_dictionaries({
        "quant_method": st.sampled_from(["fp8", "awq", "gptq", "bitsandbytes", "compressed-tensors", "mxfp4"]),
        "bits": st.sampled_from([4, "4", None]),
        "config_groups": st.sampled_from([None, {}, {"a": 1}, {"a": {"weights": {"num_bits": 4, "strategy": 3}}}]),
        "weight_block_size": st.sampled_from([None, [1], [0, 0], ["a", "b"], [128, 128]]),
        "group_size": st.sampled_from([None, 0, -1, 128, "x"]),
        "load_in_4bit": st.booleans(),
    }),
)  # fmt: skip
FIELDS = sorted({field for config in known.MODELS.values() for field in config} | {
    "text_config", "quantization_config", "layer_types", "mlp_only_layers", "use_sliding_window", "num_experts",
    "max_window_layers", "decoder_sparse_step", "moe_layer_freq", "shared_expert_intermediate_size", "dtype",
    "sliding_window_pattern", "rope_scaling", "rope_parameters", "no_rope_layers", "no_rope_layer_interval",
})  # fmt: skip


def test_an_override_of_the_models_own_limit_is_judged_like_the_engine_does() -> None:
    device = Device(2**40, 0, "cpu")
    asked = EngineSettings(model="m", max_model_len=16_384)
    refused = fit.judge(known.MODELS["SmolLM2-135M"], asked, device)
    assert refused.verdict == "DoesNotFit"
    assert """--hf-overrides '{"max_position_embeddings": 16384}'""" in refused.message
    insisted = asked.model_copy(update={"hf_overrides": {"max_position_embeddings": 16_384}})
    assert fit.judge(known.MODELS["SmolLM2-135M"], insisted, device).verdict == "Fits"


@given(
    model=st.sampled_from(sorted(known.MODELS)),
    changes=st.dictionaries(st.sampled_from(FIELDS), JUNK, max_size=3),
    memory=st.integers(0, 2**40),
    count=st.sampled_from([0, 1, 2, 3, 8, 1024]),
    kind=st.sampled_from(["cpu", "gpu"]),
    weight_bytes=st.sampled_from([None, 0, 1, 10**12]),
)
def test_whatever_the_config_holds_there_is_a_verdict(
    model: str, changes: dict[str, Any], memory: int, count: int, kind: Any, weight_bytes: int | None
) -> None:
    config = {**known.MODELS[model], **changes}
    found = fit.judge(config, EngineSettings(model="m"), Device(memory, count, kind), weight_bytes)
    assert found.message
    if found.verdict in ("Fits", "Tight"):
        assert found.weights + found.kv_cache + found.activations <= found.available
        assert found.available <= memory
        assert found.required <= found.available
