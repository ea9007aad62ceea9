"""The fields of config.json that say a model's shape: few enough for a termination message."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

_FIELDS = frozenset(
    (
        "architectures",
        "model_type",
        "hidden_size",
        "intermediate_size",
        "head_dim",
        "vocab_size",
        "max_position_embeddings",
        "tie_word_embeddings",
        "dtype",
        "torch_dtype",
        "rope_scaling",
        "rope_parameters",
        "rope_theta",
        "layer_types",
        "sliding_window",
        "sliding_window_pattern",
        "use_sliding_window",
        "max_window_layers",
        "n_routed_experts",
        "n_shared_experts",
        "moe_intermediate_size",
        "shared_expert_intermediate_size",
        "first_k_dense_replace",
        "moe_layer_freq",
        "decoder_sparse_step",
        "mlp_only_layers",
        "kv_lora_rank",
        "q_lora_rank",
        "qk_nope_head_dim",
        "qk_rope_head_dim",
        "v_head_dim",
        "n_embd",
        "n_head",
        "n_layer",
        "n_inner",
        "n_positions",
        "n_ctx",
        "d_model",
        "ffn_dim",
        "multi_query",
        "attention_bias",
        "mlp_bias",
        "hidden_act",
        "patch_size",
        "image_size",
        "full_attention_interval",
        "linear_num_key_heads",
        "linear_num_value_heads",
        "linear_key_head_dim",
        "linear_value_head_dim",
        "linear_conv_kernel_dim",
    )
)  # and all that start with num_
_NESTED = ("text_config", "llm_config", "language_config", "vision_config")
_LONGEST = 1024  # bytes of one field
_LONGEST_OF_QUANTIZATION = 512  # bytes of one of its fields: groups and short lists of modules, not long ones
_LONGEST_IN_ALL = 3000  # of the 4,000 of a termination message
_CONTEXT = ("max_position_embeddings", "n_positions", "max_sequence_length", "seq_length", "n_ctx")


def fields(config: Mapping[str, Any]) -> dict[str, Any]:
    """Those that a planner could read, the text model's own config among them; the longest go where it is too much."""
    told = _told(config)
    while len(json.dumps(told)) > _LONGEST_IN_ALL:
        parts = [told, *(told[name] for name in _NESTED if name in told)]
        places = [(part, key) for part in parts for key in part if key not in _NESTED]
        part, key = max(places, key=lambda place: len(json.dumps(place[0][place[1]])))
        del part[key]
    return told


def _told(config: Mapping[str, Any]) -> dict[str, Any]:
    told = {
        key: value
        for key, value in config.items()
        if (key in _FIELDS or key.startswith("num_")) and _short(value)
    }
    if isinstance(quantization := config.get("quantization_config"), Mapping):
        told["quantization_config"] = {
            key: value for key, value in quantization.items() if _short(value, _LONGEST_OF_QUANTIZATION)
        }
    for name in _NESTED:
        if isinstance(nested := config.get(name), Mapping) and (inner := _told(nested)):
            told[name] = inner
    return told


def context_length(config: Mapping[str, Any]) -> int | None:
    """In tokens; None where it is not said."""
    for part in (config, *(config.get(name) for name in _NESTED)):
        if isinstance(part, Mapping):
            for key in _CONTEXT:
                if isinstance(value := part.get(key), int) and not isinstance(value, bool) and value > 0:
                    return value
    return None


def dtype(config: Mapping[str, Any]) -> str | None:
    for part in (config, *(config.get(name) for name in _NESTED)):
        if isinstance(part, Mapping):
            for key in ("dtype", "torch_dtype"):
                if isinstance(value := part.get(key), str):
                    return value.removeprefix("torch.")
    return None


def _short(value: Any, limit: int = _LONGEST) -> bool:
    return value is not None and len(json.dumps(value, default=str)) <= limit
