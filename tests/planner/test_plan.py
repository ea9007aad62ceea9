"""Sizes: shapes to bytes, and what fits."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llmservice_planner import plan, shape, startup

SMOLLM2: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"], "hidden_size": 576, "intermediate_size": 1536,
    "num_attention_heads": 9, "num_key_value_heads": 3, "num_hidden_layers": 30, "vocab_size": 49152,
    "max_position_embeddings": 8192, "tie_word_embeddings": True, "torch_dtype": "bfloat16",
}  # fmt: skip
LLAMA3_8B: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"], "hidden_size": 4096, "intermediate_size": 14336,
    "num_attention_heads": 32, "num_key_value_heads": 8, "num_hidden_layers": 32, "vocab_size": 128256,
    "max_position_embeddings": 8192, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
}  # fmt: skip


def make(config: dict[str, Any] = SMOLLM2, **changes: Any) -> plan.Plan:
    arguments: dict[str, Any] = {
        "dtype": "bfloat16", "available_bytes": 2 * 2**30, "weight_bytes": None, "block_size": 16,
        "max_model_len": None, "max_num_seqs": 256, "max_num_batched_tokens": 2048,
    }  # fmt: skip
    return plan.make(shape.from_config(config), **(arguments | changes))


def test_known_models_have_their_published_number_of_parameters() -> None:
    assert shape.from_config(SMOLLM2).parameters() == 134_515_008
    assert shape.from_config(LLAMA3_8B).parameters() == 8_030_261_248


def test_a_token_of_llama3_8b_takes_128_kib_of_kv_cache() -> None:
    assert shape.from_config(LLAMA3_8B).kv_bytes_per_token("bfloat16") == 128 * 1024


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"architectures": ["MambaForCausalLM"]}, "MambaForCausalLM is not served; served: LlamaForCausalLM"),
        ({"architectures": None}, "architecture (none) is not served"),
        ({"num_hidden_layers": None}, "num_hidden_layers is None"),
        ({"vocab_size": "many"}, "vocab_size is 'many'"),
        ({"hidden_size": -1}, "hidden_size is -1"),
        ({"num_key_value_heads": 2}, "9 is not a multiple of num_key_value_heads 2"),
    ],
)
def test_a_config_without_a_shape_is_refused_by_the_fields_name(change: dict[str, Any], said: str) -> None:
    with pytest.raises(shape.ShapeError, match=r".") as refusal:
        shape.from_config(SMOLLM2 | change)
    assert said in str(refusal.value)


def test_what_does_not_fit_names_the_length_that_would() -> None:
    with pytest.raises(plan.Infeasible) as refusal:
        make(available_bytes=600 * 2**20, max_model_len=None)
    error = refusal.value
    assert error.required_bytes > error.available_bytes
    longest = int(error.hint.split()[2])
    assert make(available_bytes=600 * 2**20, max_model_len=longest).blocks == longest // 16
    with pytest.raises(plan.Infeasible):
        make(available_bytes=600 * 2**20, max_model_len=longest + 1)


def test_where_not_even_the_weights_fit_the_hint_is_another() -> None:
    with pytest.raises(plan.Infeasible, match="try more memory"):
        make(available_bytes=100 * 2**20)


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


def test_the_startup_budget_grows_with_the_model_and_never_below_the_process() -> None:
    small, large = (startup.derive(size, 100_000_000, 2.0).deadline_seconds for size in (0, 140 * 10**9))
    assert (small, large) == (startup.PROCESS_SECONDS, startup.PROCESS_SECONDS + 2800)
