"""Models and accelerators that people ask about, by name: what ``config.json`` and ``nvidia-smi`` say.

Only the fields that a shape needs. Published facts; no file of a model is copied.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def _llama(hidden: int, inner: int, heads: int, kv_heads: int, layers: int, **more: Any) -> dict[str, Any]:
    return {
        "architectures": ["LlamaForCausalLM"], "hidden_size": hidden, "intermediate_size": inner,
        "num_attention_heads": heads, "num_key_value_heads": kv_heads, "num_hidden_layers": layers,
        "vocab_size": 128_256, "max_position_embeddings": 131_072, "tie_word_embeddings": False,
        "torch_dtype": "bfloat16", **more,
    }  # fmt: skip


def _other(architecture: str, vocabulary: int, context: int, *dimensions: int, **more: Any) -> dict[str, Any]:
    own = {"architectures": [architecture], "vocab_size": vocabulary, "max_position_embeddings": context}
    return {**_llama(*dimensions), **own, **more}


_LLAMA_70B = _llama(8192, 28_672, 64, 8, 80)
_TIED = {"tie_word_embeddings": True}
_GEMMA2 = {"head_dim": 256, "sliding_window": 4096, **_TIED}
_SIGLIP = {
    "hidden_size": 1152, "intermediate_size": 4304, "num_hidden_layers": 27, "patch_size": 14, "image_size": 896,
}  # fmt: skip
_GPT_OSS = {
    "head_dim": 64, "sliding_window": 128, "num_experts_per_tok": 4,
    "quantization_config": {
        "quant_method": "mxfp4",
        "modules_to_not_convert": ["model.layers.*.self_attn", "model.layers.*.mlp.router", "lm_head"],
    },
}  # fmt: skip
_MIXTRAL = {"num_local_experts": 8, "num_experts_per_tok": 2}
_A3B = {"head_dim": 128, "num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768}

# By the name in the hub, without the organisation.
MODELS: Mapping[str, Mapping[str, Any]] = {
    "SmolLM2-135M": _llama(576, 1536, 9, 3, 30, vocab_size=49_152, max_position_embeddings=8192, **_TIED),
    "SmolLM2-1.7B": _llama(2048, 8192, 32, 32, 24, vocab_size=49_152, max_position_embeddings=8192, **_TIED),
    "Llama-3.2-1B": _llama(2048, 8192, 32, 8, 16, head_dim=64, **_TIED),
    "Llama-3.2-3B": _llama(3072, 8192, 24, 8, 28, head_dim=128, **_TIED),
    "Llama-3.1-8B": _llama(4096, 14_336, 32, 8, 32),
    "Llama-3.1-70B": _LLAMA_70B,
    "Llama-3.3-70B": _LLAMA_70B,
    "Mistral-7B-v0.3": _other("MistralForCausalLM", 32_768, 32_768, 4096, 14_336, 32, 8, 32),
    "Mixtral-8x7B-v0.1": _other("MixtralForCausalLM", 32_000, 32_768, 4096, 14_336, 32, 8, 32, **_MIXTRAL),
    "Qwen2.5-0.5B": _other("Qwen2ForCausalLM", 151_936, 32_768, 896, 4864, 14, 2, 24, **_TIED),
    "Qwen2.5-7B": _other("Qwen2ForCausalLM", 152_064, 32_768, 3584, 18_944, 28, 4, 28),
    "Qwen2.5-32B": _other("Qwen2ForCausalLM", 152_064, 32_768, 5120, 27_648, 40, 8, 64),
    "Qwen2.5-72B": _other("Qwen2ForCausalLM", 152_064, 32_768, 8192, 29_568, 64, 8, 80),
    "Qwen3-8B": _other("Qwen3ForCausalLM", 151_936, 40_960, 4096, 12_288, 32, 8, 36, head_dim=128),
    "Qwen3-32B": _other("Qwen3ForCausalLM", 151_936, 40_960, 5120, 25_600, 64, 8, 64, head_dim=128),
    "Qwen3-30B-A3B": _other("Qwen3MoeForCausalLM", 151_936, 40_960, 2048, 6144, 32, 4, 48, **_A3B),
    "gemma-2-9b": _other("Gemma2ForCausalLM", 256_000, 8192, 3584, 14_336, 16, 8, 42, **_GEMMA2),
    "gemma-2-27b": _other(
        "Gemma2ForCausalLM", 256_000, 8192, 4608, 36_864, 32, 16, 46, **{**_GEMMA2, "head_dim": 128}
    ),
    "gemma-3-12b": _other(
        "Gemma3ForConditionalGeneration", 262_208, 131_072, 3840, 15_360, 16, 8, 48,
        head_dim=256, sliding_window=1024, vision_config=_SIGLIP, **_TIED,
    ),
    "Phi-3.5-mini": _other(
        "Phi3ForCausalLM", 32_064, 131_072, 3072, 8192, 32, 32, 32, sliding_window=262_144
    ),
    "Phi-4-mini": _other("Phi3ForCausalLM", 200_064, 131_072, 3072, 8192, 24, 8, 32, sliding_window=262_144, **_TIED),
    "phi-4": _other("Phi3ForCausalLM", 100_352, 16_384, 5120, 17_920, 40, 10, 40),
    "OLMo-2-7B": _other("Olmo2ForCausalLM", 100_352, 4096, 4096, 11_008, 32, 32, 32),
    "granite-3.3-8b": _other("GraniteForCausalLM", 49_159, 131_072, 4096, 12_800, 32, 8, 40, **_TIED),
    "SmolLM3-3B": _other("SmolLM3ForCausalLM", 128_256, 65_536, 2048, 11_008, 16, 4, 36, **_TIED),
    "gpt-oss-20b": _other(
        "GptOssForCausalLM", 201_088, 131_072, 2880, 2880, 64, 8, 24, num_local_experts=32, **_GPT_OSS
    ),
    "gpt-oss-120b": _other(
        "GptOssForCausalLM", 201_088, 131_072, 2880, 2880, 64, 8, 36, num_local_experts=128, **_GPT_OSS
    ),
    "DeepSeek-V3": _other(
        "DeepseekV3ForCausalLM", 129_280, 163_840, 7168, 18_432, 128, 128, 61,
        q_lora_rank=1536, kv_lora_rank=512, qk_rope_head_dim=64, qk_nope_head_dim=128, v_head_dim=128,
        n_routed_experts=256, n_shared_experts=1, num_experts_per_tok=8, moe_intermediate_size=2048,
        first_k_dense_replace=3,
        quantization_config={"quant_method": "fp8", "weight_block_size": [128, 128]},
    ),
}  # fmt: skip

# MiB of one device, as nvidia-smi shows it.
ACCELERATORS: Mapping[str, int] = {
    "L4": 23_034,
    "A10G": 23_028,
    "A100-40GB": 40_960,
    "A100-80GB": 81_920,
    "H100-80GB": 81_559,
    "H200": 143_771,
}
