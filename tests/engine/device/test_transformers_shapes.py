"""The planner's shapes against transformers' own modules, built without memory: an independent count."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from llmservice_planner import shape
from transformers import AutoConfig, AutoModelForCausalLM

SMALL = {
    "hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 8, "num_key_value_heads": 4,
    "num_hidden_layers": 6, "vocab_size": 320, "max_position_embeddings": 256, "head_dim": 24, "pad_token_id": 0,
    "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
ROUTED = {"num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 40}
MIXED = {"num_local_experts": 4, "num_experts_per_tok": 2}
MLA = {
    "kv_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 16, "v_head_dim": 16, "n_routed_experts": 4,
    "n_shared_experts": 2, "num_experts_per_tok": 2, "moe_intermediate_size": 40, "first_k_dense_replace": 2,
    "n_group": 1, "topk_group": 1,
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("llama", {}),
        ("llama", {"attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True}),
        ("mistral", {}),
        ("mixtral", MIXED),
        ("qwen2", {}),
        ("qwen3", {}),
        ("qwen3", {"attention_bias": True}),
        ("qwen2_moe", {**ROUTED, "shared_expert_intermediate_size": 72, "decoder_sparse_step": 2}),
        ("qwen3_moe", {**ROUTED, "mlp_only_layers": [1]}),
        ("gemma", {}),
        ("gemma2", {}),
        ("gemma3_text", {}),
        ("phi3", {}),
        ("olmo2", {}),
        ("olmo2", {"attention_bias": True}),
        ("granite", {"attention_bias": True, "mlp_bias": True}),
        ("smollm3", {"tie_word_embeddings": True}),
        ("smollm3", {"use_sliding_window": True, "sliding_window": 32}),
        ("qwen2", {"use_sliding_window": True, "max_window_layers": 4}),
        ("gpt_oss", MIXED),
        ("deepseek_v2", {**MLA, "q_lora_rank": None}),
        ("deepseek_v3", {**MLA, "q_lora_rank": 20}),
    ],
)
def test_parameters_and_sliding_layers_are_those_of_transformers(kind: str, change: dict[str, Any]) -> None:
    config = AutoConfig.for_model(kind, **{**SMALL, **change})
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    found = shape.from_config({**config.to_dict(), "architectures": [type(model).__name__]})
    buffers = sum(b.numel() for name, b in model.named_buffers() if name.endswith("e_score_correction_bias"))
    assert found.parameters() == sum(weight.numel() for weight in model.parameters()) + buffers
    kinds = getattr(config, "layer_types", None)
    if kinds and getattr(config, "sliding_window", None):
        assert found.window_layers == kinds.count("sliding_attention")
