"""Plans: how memory is shared out, and what is said where it does not suffice."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llmservice_planner import known, plan, shape, startup
from llmservice_planner.errors import LengthError, SplitError

MIB = 2**20


def of(name: str, **changes: Any) -> shape.ModelShape:
    return shape.from_config({**known.MODELS[name], **changes})


def make(name: str = "SmolLM2-135M", config: dict[str, Any] | None = None, **changes: Any) -> plan.Plan:
    arguments: dict[str, Any] = {
        "dtype": "bfloat16", "available_bytes": 2 * 2**30, "weight_bytes": None, "block_size": 16,
        "max_model_len": None, "max_num_seqs": 256, "max_num_batched_tokens": 2048,
    }  # fmt: skip
    return plan.make(of(name, **(config or {})), **(arguments | changes))


def refusal(name: str = "SmolLM2-135M", **changes: Any) -> plan.Infeasible:
    with pytest.raises(plan.Infeasible) as caught:
        make(name, **changes)
    return caught.value


def test_what_does_not_fit_names_the_length_that_would() -> None:
    with pytest.raises(plan.Infeasible) as refusal:
        make(available_bytes=600 * 2**20, max_model_len=None)
    error = refusal.value
    assert error.required_bytes > error.available_bytes
    longest = int(error.hint.split()[2])
    assert make(available_bytes=600 * 2**20, max_model_len=longest).blocks == longest // 16
    with pytest.raises(plan.Infeasible):
        make(available_bytes=600 * 2**20, max_model_len=longest + 1)


def test_where_no_length_fits_the_hint_is_the_least_number_of_devices_and_it_is_true() -> None:
    error = refusal("Llama-3.1-70B", available_bytes=72_000 * MIB)
    assert error.hint == "try 4 such devices (--tensor-parallel-size 4, the least that fit)"
    make("Llama-3.1-70B", available_bytes=72_000 * MIB, tensor_parallel_size=4)
    assert refusal("Llama-3.1-70B", available_bytes=72_000 * MIB, tensor_parallel_size=2).longest < 131_072


def test_what_several_devices_lose_to_their_collectives_is_kept_in_mind() -> None:
    asked: dict[str, Any] = {"max_model_len": 1024}
    at_two = make("Llama-3.1-8B", available_bytes=2**40, tensor_parallel_size=2, **asked).required_bytes
    assert "try 2 such devices" in refusal("Llama-3.1-8B", available_bytes=at_two, **asked).hint
    cramped = refusal("Llama-3.1-8B", available_bytes=at_two, collectives_bytes=512 * MIB, **asked)
    assert "try 4 such devices" in cramped.hint


def test_where_devices_do_not_help_the_hint_is_how_much_memory_is_missing() -> None:
    error = refusal(available_bytes=100 * MIB, most_devices=1)
    missing = -(-error.required_bytes // MIB) - 100
    assert error.hint == f"try {missing} MiB more memory a device"
    make(available_bytes=(100 + missing) * MIB)
    half = refusal(available_bytes=100 * MIB, most_devices=1, gpu_memory_utilization=0.5)
    asked = int(half.hint.split()[1].replace(",", ""))
    assert 2 * missing - 2 <= asked <= 2 * missing


def test_a_length_beyond_the_models_own_is_refused_with_both_figures() -> None:
    with pytest.raises(
        LengthError, match=r"9000 is more than the model's own limit of 8192 tokens; try --max"
    ):
        make(max_model_len=9000)


@given(
    available=st.integers(0, 2**34),
    length=st.integers(1, 8192),
    sequences=st.integers(1, 512),
    tokens=st.integers(1, 8192),
    block=st.sampled_from([8, 16, 32, 64, 128]),
)
def test_a_plan_never_exceeds_what_is_available(
    available: int, length: int, sequences: int, tokens: int, block: int
) -> None:
    try:
        made = make(
            available_bytes=available,
            max_model_len=length,
            max_num_seqs=sequences,
            max_num_batched_tokens=tokens,
            block_size=block,
        )
    except plan.Infeasible as refusal:
        assert refusal.required_bytes > refusal.available_bytes
        return
    assert made.weight_bytes + made.activation_bytes + made.kv_bytes <= available
    assert made.full_length_sequences >= 1


def test_more_memory_never_shortens_the_longest_sequence() -> None:
    found = [refusal("Llama-3.1-8B", available_bytes=size * 2**30).longest for size in range(16, 31)]
    assert found == sorted(found)
    assert found[-1] > found[0] > 0


def test_a_plan_for_llama3_8b_is_what_a_hand_reckons() -> None:
    made = make("Llama-3.1-8B", available_bytes=72_000 * MIB, max_model_len=8192)
    assert made.weight_bytes == 2 * 8_030_261_248
    # A token's numbers in a layer: 4 x 4096 of residual and neighbours, 3 x 14336 of gate, up and their product.
    layer = 2048 * (4 * 4096 + 3 * 14_336) * 2
    logits = 256 * 128_256 * 4 * 3  # fp32, sorted once
    rotations = 8192 * 2 * 128 * 2
    assert made.activation_bytes == layer + logits + rotations
    left = 72_000 * MIB - made.weight_bytes - made.activation_bytes
    assert made.blocks == left // (16 * 128 * 1024)
    assert made.kv_bytes == made.blocks * 16 * 128 * 1024
    assert made.block_table_bytes == 4 * made.blocks


@pytest.mark.parametrize(
    ("name", "devices", "matrices"),
    [
        # Linear layers, embedding and head are shared out; norms are not.
        ("Llama-3.1-8B", 8, 65 * 4096),
        ("Llama-3.1-70B", 4, 161 * 8192),
    ],
)
def test_tensor_parallelism_shares_out_all_but_the_norms(name: str, devices: int, matrices: int) -> None:
    whole = of(name)
    shared = whole.parameters() - matrices
    assert whole.weight_bytes("bfloat16", devices) == 2 * (shared // devices + matrices)


def test_key_value_heads_are_repeated_where_there_are_fewer_than_devices() -> None:
    model = of("Qwen3-30B-A3B")  # 4 key/value heads
    assert model.kv_bytes_per_token("bfloat16", 2) * 2 == model.kv_bytes_per_token("bfloat16")
    assert model.kv_bytes_per_token("bfloat16", 8) == model.kv_bytes_per_token("bfloat16", 4)
    at_four, at_eight = model.weight_bytes("bfloat16", 4), model.weight_bytes("bfloat16", 8)
    repeated = 48 * 2 * 128 * 2048 * 2  # a head of keys and one of values in each layer, not halved again
    replicated = 2 * (48 * (2 * 2048 + 2 * 128 + 128 * 2048) + 2048)  # norms and routers
    assert at_eight - repeated - replicated == (at_four - repeated - replicated) // 2


def test_a_compressed_cache_is_the_same_on_every_device() -> None:
    model = of("DeepSeek-V3")
    assert model.kv_bytes_per_token("bfloat16", 8) == model.kv_bytes_per_token("bfloat16")


@pytest.mark.parametrize(
    ("name", "change", "devices", "said"),
    [
        ("SmolLM2-135M", {}, 2, "9 attention heads cannot be split over 2 devices; "
         "try a --tensor-parallel-size of 1, 3"),
        ("phi-4", {}, 4, "10 key/value heads can neither be split nor repeated over 4 devices"),
        ("Llama-3.2-1B", {"intermediate_size": 8190}, 4, "of width 8190 cannot be split over 4 devices"),
        # The well-known case: 29568 / 8 = 3696 is no multiple of 128; the published checkpoint is padded for it.
        ("Qwen2.5-72B", {"quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 128}}, 8,
         "of width 29568 in quantisation groups of 128 cannot be split over 8 devices"),
    ],
)  # fmt: skip
def test_a_split_that_does_not_divide_is_refused_with_the_figures(
    name: str, change: dict[str, Any], devices: int, said: str
) -> None:
    with pytest.raises(SplitError) as caught:
        make(name, change, available_bytes=2**40, tensor_parallel_size=devices)
    assert said in str(caught.value)


def test_the_cache_of_a_sliding_layer_ends_with_its_window_in_an_engine_that_frees_the_rest() -> None:
    """gpt-oss-20b: 12 layers keep all, 12 keep 127 + 2048 tokens, in blocks of 16 and one more."""
    made = make("gpt-oss-20b", available_bytes=2**40, max_num_seqs=1)
    token = 2 * 8 * 64 * 2  # bytes in one layer
    assert made.kv_bytes == 12 * 131_072 * token + 12 * (136 + 1) * 16 * token
    assert made.kv_tokens == 131_072


def test_a_window_longer_than_the_sequence_bounds_nothing() -> None:
    made = make("gemma-2-9b", available_bytes=2**40, max_num_seqs=1, max_model_len=4096)
    assert made.kv_bytes == 4096 * 42 * 2 * 8 * 256 * 2


def test_in_the_bundled_engine_a_sliding_layer_keeps_as_much_as_any_other() -> None:
    made = make("gemma-2-9b", available_bytes=2**40, max_num_seqs=1)
    assert made.kv_bytes == 8192 * 42 * 2 * 8 * 256 * 2


def test_a_cache_in_fp8_holds_twice_the_tokens() -> None:
    sixteen, eight = (make("Llama-3.1-8B", available_bytes=2**36, kv_dtype=kind) for kind in (None, "fp8"))
    assert eight.kv_tokens == pytest.approx(2 * sixteen.kv_tokens, abs=32)


def test_a_packed_product_keeps_the_tied_embedding_twice() -> None:
    plain, packed = (make(packed=packed) for packed in (False, True))
    assert packed.weight_bytes - plain.weight_bytes == 49_152 * 576 * 2  # 57 MB
    untied = {"tie_word_embeddings": False}
    assert make(config=untied, packed=True).weight_bytes == make(config=untied).weight_bytes


def test_a_cpu_gathers_keys_and_values_from_their_pages() -> None:
    """SmolLM2 for sequences of 8192 tokens: 16384 tokens gathered, under a mask as booleans and as numbers."""
    made = make(kind="cpu", max_num_seqs=64)
    layer = 2048 * (4 * 576 + 3 * 1536) * 2
    logits = 49_152 * (64 * 2 + 32 * 16)
    rotations = 8192 * 2 * 64 * 2
    gathered, masks = 16_384 * 2 * 3 * 64 * 2, 2048 * 8192 * 3
    assert made.activation_bytes == layer + logits + rotations + gathered + masks


def test_only_the_active_experts_need_scratch_memory() -> None:
    two, eight = (
        make("Mixtral-8x7B-v0.1", {"num_experts_per_tok": n}, available_bytes=2**40) for n in (2, 8)
    )
    each = 2 * 14_336 + 14_336
    assert eight.activation_bytes - two.activation_bytes == 2048 * 6 * each * 2
    assert eight.weight_bytes == two.weight_bytes


@pytest.mark.parametrize(
    ("kind", "expected"), [("gpu", 90 * MIB - 10 * MIB), ("cpu", (100 - 10) * MIB * 9 // 10)]
)
def test_the_share_is_of_the_device_or_of_what_the_process_leaves(kind: Any, expected: int) -> None:
    assert plan.available(100 * MIB, 10 * MIB, 0.9, kind) == expected
    assert plan.available(MIB, 10 * MIB, 0.9, kind) == 0


def test_the_startup_budget_grows_with_the_model_and_never_below_the_process() -> None:
    small, large = (startup.derive(size, 100_000_000, 2.0).deadline_seconds for size in (0, 140 * 10**9))
    assert (small, large) == (startup.PROCESS_SECONDS, startup.PROCESS_SECONDS + 2800)
