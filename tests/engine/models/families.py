"""A small configuration of every family that is served, and of each way in which its checkpoints differ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

LENGTHS = (45, 19, 33)  # prompts that a comparison runs


@dataclass(frozen=True)
class Family:
    kind: str  # transformers' model_type
    config: Mapping[str, Any] = field(default_factory=dict)
    lengths: tuple[int, ...] = LENGTHS  # the longest first
    context: int | None = None  # tokens that are served, where not the model's own limit
    eye: Mapping[str, Any] | None = None  # of a model that also sees: the config then is its text_config


SMALL = {
    "vocab_size": 96, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 128, "initializer_range": 0.1, "tie_word_embeddings": False,
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
WINDOW = {"sliding_window": 8}
ROUTED = {"num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 24}
MIXED = {"num_local_experts": 4, "num_experts_per_tok": 2}
DIVISORS = {
    "short_factor": [1 + 0.05 * n for n in range(8)],
    "long_factor": [1 + 0.5 * n for n in range(8)],
}


def rope(kind: str, **more: Any) -> dict[str, Any]:
    return {"rope_parameters": {"rope_type": kind, "rope_theta": 500.0, **more}}


LLAMA3 = rope(
    "llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=16
)
YARN = rope("yarn", factor=4.0, original_max_position_embeddings=16)
LONGROPE = rope("longrope", original_max_position_embeddings=16, **DIVISORS)

FAMILIES: Mapping[str, Family] = {
    "llama": Family("llama"),
    "llama, tied": Family("llama", {"tie_word_embeddings": True}),
    "llama, biases and wide heads": Family("llama", {"attention_bias": True, "mlp_bias": True, "head_dim": 24}),
    "llama, linear rope": Family("llama", rope("linear", factor=4.0)),
    "llama, llama3 rope": Family("llama", LLAMA3),
    "llama, yarn rope": Family("llama", YARN),
    "llama, yarn rope with figures of its own": Family(
        "llama",
        rope(
            "yarn", factor=4.0, original_max_position_embeddings=16, beta_fast=8.0, beta_slow=0.5, mscale=0.7,
            mscale_all_dim=0.9, truncate=False,
        ),
    ),
    "llama, dynamic rope, short": Family("llama", rope("dynamic", factor=2.0), context=128),
    "llama, dynamic rope, long": Family(
        "llama", {"max_position_embeddings": 32, **rope("dynamic", factor=2.0)}, lengths=(64, 40, 50)
    ),
    "llama, longrope, long": Family("llama", LONGROPE),
    "llama, longrope, short": Family(
        "llama", rope("longrope", original_max_position_embeddings=64, **DIVISORS), context=64
    ),
    "mistral": Family("mistral", {"sliding_window": None}),
    "mistral, window": Family("mistral", {**WINDOW, "head_dim": 24}),
    "mixtral": Family("mixtral", MIXED),
    "mixtral, window": Family("mixtral", {**MIXED, **WINDOW}),
    "qwen2": Family("qwen2"),
    "qwen2, window": Family("qwen2", {**WINDOW, "use_sliding_window": True, "max_window_layers": 1}),
    "qwen2, tied, yarn rope": Family("qwen2", {**YARN, "tie_word_embeddings": True}),
    "qwen3": Family("qwen3", {"head_dim": 24}),
    "qwen3, biases": Family("qwen3", {"head_dim": 16, "attention_bias": True, "tie_word_embeddings": True}),
    "qwen3 moe": Family("qwen3_moe", {**ROUTED, "head_dim": 16, "norm_topk_prob": True}),
    "qwen3 moe, dense layers, window": Family(
        "qwen3_moe", {**ROUTED, **WINDOW, "head_dim": 16, "mlp_only_layers": [1], "use_sliding_window": True}
    ),
    "gemma2": Family(
        "gemma2", {**WINDOW, "head_dim": 16, "query_pre_attn_scalar": 24, "tie_word_embeddings": True}
    ),
    "gemma2, other caps, untied": Family(
        "gemma2", {**WINDOW, "head_dim": 24, "attn_logit_softcapping": 2.0, "final_logit_softcapping": 5.0}
    ),
    "gemma2, no caps": Family(
        "gemma2", {"head_dim": 16, "attn_logit_softcapping": None, "final_logit_softcapping": None}
    ),
    "gemma3": Family(
        "gemma3_text",
        {
            **WINDOW, "head_dim": 16, "query_pre_attn_scalar": 24, "sliding_window_pattern": 3,
            "tie_word_embeddings": True,
        },
    ),
    "gemma3, full layers scaled": Family(
        "gemma3_text",
        {
            **WINDOW, "head_dim": 16, "sliding_window_pattern": 2, "final_logit_softcapping": 5.0,
            "rope_parameters": {
                "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1000.0},
                "sliding_attention": {"rope_type": "default", "rope_theta": 100.0},
            },
        },
    ),
    "gemma3, beside an eye": Family(
        "gemma3",
        {
            **WINDOW, "head_dim": 16, "query_pre_attn_scalar": 24, "sliding_window_pattern": 3,
            "tie_word_embeddings": True,
        },
        eye={
            "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2,
            "image_size": 28, "patch_size": 14,
        },
    ),
    "phi3": Family("phi3"),
    "phi3, partial longrope, window, tied": Family(
        "phi3",
        {
            **WINDOW, "original_max_position_embeddings": 16, "tie_word_embeddings": True,
            "rope_parameters": {
                "rope_type": "longrope", "rope_theta": 500.0, "partial_rotary_factor": 0.75,
                "short_factor": [1.0] * 6, "long_factor": [1 + 0.5 * n for n in range(6)],
            },
        },
    ),
    "olmo2": Family("olmo2", {"num_key_value_heads": 4}),
    "olmo2, grouped heads, biases": Family("olmo2", {"attention_bias": True}),
    "granite": Family(
        "granite",
        {
            "embedding_multiplier": 3.0, "residual_multiplier": 0.4, "attention_multiplier": 0.1, "logits_scaling": 2.5,
            "tie_word_embeddings": True,
        },
    ),
    "smollm3": Family("smollm3", {"no_rope_layer_interval": 3, "tie_word_embeddings": True}),
    "smollm3, window": Family("smollm3", {**WINDOW, "use_sliding_window": True, "no_rope_layers": [0, 1, 0]}),
}  # fmt: skip


def write(family: Family, folder: Path, **saving: Any) -> Path:
    """A random checkpoint, whose norms and biases are random too: ones and noughts would hide a mix-up."""
    torch.manual_seed(1)
    config: Mapping[str, Any] = {**SMALL, **family.config}
    if family.eye is not None:
        config = {"text_config": config, "vision_config": family.eye, "mm_tokens_per_image": 4}
    made = AutoModelForCausalLM.from_config(AutoConfig.for_model(family.kind, **config))
    for parameter in made.parameters():
        if parameter.dim() == 1:
            torch.nn.init.normal_(parameter, mean=0.5, std=0.2)
    made.save_pretrained(folder, **saving)
    return folder


def reference(folder: Path) -> PreTrainedModel:
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")


def prompts(family: Family) -> dict[str, list[int]]:
    """Of different lengths, the longest first."""
    numbers = torch.Generator().manual_seed(7)
    return {
        f"{length} tokens": torch.randint(3, 96, (length,), generator=numbers).tolist()
        for length in family.lengths
    }


@torch.inference_mode()
def logits_of(model: PreTrainedModel, prompt: list[int]) -> torch.Tensor:
    """[tokens, vocabulary]"""
    logits: torch.Tensor = model(torch.tensor([prompt])).logits[0]
    return logits
