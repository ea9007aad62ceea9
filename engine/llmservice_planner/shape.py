"""A model's shape, read from a Hugging Face ``config.json``.

Which architectures can be sized is one thing, which of them the bundled engine serves another:
:data:`SIZED_ARCHITECTURES` and :data:`SUPPORTED_ARCHITECTURES`. A model is added by a row of :data:`_READERS`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from llmservice_planner import quantization
from llmservice_planner.dimensions import DTYPE_BYTES, KV_DTYPE_BYTES, Experts, LatentAttention, ModelShape
from llmservice_planner.errors import ShapeError

__all__ = [
    "DTYPE_BYTES",
    "KV_DTYPE_BYTES",
    "SIZED_ARCHITECTURES",
    "SUPPORTED_ARCHITECTURES",
    "ModelShape",
    "ShapeError",
    "from_config",
    "overridden",
    "text_fields",
    "unrotated_layers",
]

# What the bundled engine serves.
SUPPORTED_ARCHITECTURES = (
    "LlamaForCausalLM",
    "MistralForCausalLM",
    "MixtralForCausalLM",
    "Qwen2ForCausalLM",
    "Qwen3ForCausalLM",
    "Qwen3MoeForCausalLM",
    "Gemma2ForCausalLM",
    "Gemma3ForCausalLM",
    "Gemma3ForConditionalGeneration",
    "Phi3ForCausalLM",
    "Olmo2ForCausalLM",
    "GraniteForCausalLM",
    "SmolLM3ForCausalLM",
)
_MOST_LAYERS = 65_536
_MOST_CONTEXT = 2**30  # tokens: beyond it a factor is a slip
_SCALED_LIMIT = ("Gemma3ForCausalLM", "Gemma3ForConditionalGeneration")

Config = Mapping[str, Any]


def from_config(config: Config) -> ModelShape:
    """Read a Hugging Face ``config.json``.

    Raises:
        ShapeError: the architecture or its quantisation cannot be sized, or a field is missing or wrong.
    """
    architectures = config.get("architectures")
    name = architectures[0] if isinstance(architectures, list) and architectures else "(none)"
    if name not in _READERS:
        raise ShapeError(f"architecture {name} cannot be sized; known: {', '.join(SIZED_ARCHITECTURES)}")
    text = {**_DEFAULTS.get(name, {}), **text_fields(config)}
    shape = _READERS[name](text, _plain(text, name))
    return dataclasses.replace(shape, quantization=quantization.from_config(text))


def text_fields(config: Config) -> Config:
    """The decoder's own fields: those of ``text_config``, where there is one, before the file's."""
    inner = config.get("text_config")
    return {**config, **inner} if isinstance(inner, Mapping) else config


def overridden(config: Config, overrides: Config) -> Config:
    """``config`` with other fields (``--hf-overrides``); they reach the decoder's own too."""
    inner = config.get("text_config")
    found = {**config, **overrides}
    if isinstance(inner, Mapping) and "text_config" not in overrides:
        found["text_config"] = {**inner, **overrides}
    return found


def _plain(config: Config, architecture: str) -> ModelShape:
    """What every decoder has, under the names that nearly all of them share."""
    heads = _positive(config, "num_attention_heads")
    hidden = _positive(config, "hidden_size")
    kv_heads = _positive(config, "num_key_value_heads", heads)
    if heads % kv_heads:
        raise ShapeError(f"num_attention_heads {heads} is not a multiple of num_key_value_heads {kv_heads}")
    dtype = str(config.get("dtype") or config.get("torch_dtype") or "float32")
    layers = _positive(config, "num_hidden_layers")
    if layers > _MOST_LAYERS:
        raise ShapeError(f"config.json: num_hidden_layers is {layers}, at most {_MOST_LAYERS} can be sized")
    window = config.get("sliding_window")
    return ModelShape(
        architecture=architecture,
        layers=layers,
        hidden=hidden,
        intermediate=_positive(config, "intermediate_size"),
        heads=heads,
        kv_heads=kv_heads,
        head_dim=_positive(config, "head_dim", hidden // heads),
        vocabulary=_positive(config, "vocab_size"),
        context=_context(config, architecture),
        tied_embeddings=bool(config.get("tie_word_embeddings", False)),
        dtype=dtype if dtype in DTYPE_BYTES else "float32",
        window=_positive(config, "sliding_window") if window else None,
        sliding=_listed_window_layers(config, layers),
    )


def _llama(config: Config, shape: ModelShape) -> ModelShape:
    attention, feed = bool(config.get("attention_bias")), bool(config.get("mlp_bias"))
    return dataclasses.replace(
        shape, qkv_bias=attention, output_bias=attention, feed_bias=feed, window=None, sliding=()
    )


def _mistral(config: Config, shape: ModelShape) -> ModelShape:
    """Every layer slides where there is a window. Phi-3 is the same: its merged matrices add up to the parts."""
    return _sliding(config, shape, lambda number: True)


def _mixtral(config: Config, shape: ModelShape) -> ModelShape:
    experts = Experts(
        count=_positive(config, "num_local_experts"),
        active=_positive(config, "num_experts_per_tok"),
        intermediate=shape.intermediate,
        layers=tuple(range(shape.layers)),
    )
    return dataclasses.replace(_mistral(config, shape), experts=experts)


def _qwen2(config: Config, shape: ModelShape) -> ModelShape:
    """Biases on queries, keys and values. Its window counts only where ``use_sliding_window`` says so."""
    shape = dataclasses.replace(shape, qkv_bias=True)
    return _qwen_window(config, shape)


def _qwen3(config: Config, shape: ModelShape) -> ModelShape:
    """No biases by default; queries and keys are normed."""
    bias = bool(config.get("attention_bias"))
    head_dim = _positive(config, "head_dim", 128)
    shape = dataclasses.replace(
        shape, head_dim=head_dim, qkv_bias=bias, output_bias=bias, qk_norms=2 * head_dim
    )
    return _qwen_window(config, shape)


def _qwen_window(config: Config, shape: ModelShape) -> ModelShape:
    if not config.get("use_sliding_window"):
        return dataclasses.replace(shape, window=None, sliding=())
    first = _count(config, "max_window_layers", 28)
    return _sliding(config, shape, lambda number: number >= first)


def _qwen2_moe(config: Config, shape: ModelShape) -> ModelShape:
    shared = _positive(config, "shared_expert_intermediate_size")
    experts = dataclasses.replace(_qwen_experts(config, shape), shared_intermediate=shared, shared_gate=True)
    return dataclasses.replace(_qwen2(config, shape), experts=experts)


def _qwen3_moe(config: Config, shape: ModelShape) -> ModelShape:
    """Where a window is switched on, every layer slides: transformers passes ``max_window_layers`` over here."""
    qwen3 = _qwen3({**config, "max_window_layers": 0}, shape)
    return dataclasses.replace(qwen3, experts=_qwen_experts(config, shape))


def _qwen_experts(config: Config, shape: ModelShape) -> Experts:
    dense = config.get("mlp_only_layers") or ()
    if not isinstance(dense, list | tuple):
        raise ShapeError(f"config.json: mlp_only_layers is {dense!r}, a list is needed")
    step = _positive(config, "decoder_sparse_step", 1)
    return Experts(
        count=_positive(config, "num_experts", config.get("num_local_experts")),
        active=_positive(config, "num_experts_per_tok"),
        intermediate=_positive(config, "moe_intermediate_size"),
        layers=tuple(n for n in range(shape.layers) if n not in dense and (n + 1) % step == 0),
    )


def _gemma(config: Config, shape: ModelShape) -> ModelShape:
    """Embeddings are tied unless the file says otherwise; heads are 256 wide. The first Gemma never slides."""
    bias = bool(config.get("attention_bias"))
    return dataclasses.replace(
        shape,
        head_dim=_positive(config, "head_dim", 256),
        qkv_bias=bias,
        output_bias=bias,
        tied_embeddings=bool(config.get("tie_word_embeddings", True)),
    )


def _gemma2(config: Config, shape: ModelShape) -> ModelShape:
    """Four norms a layer; every other layer slides, the first one does."""
    gemma = dataclasses.replace(_gemma(config, shape), norms=4, window=shape.window or 4096)
    return _sliding(config, gemma, lambda number: number % 2 == 0)


def _gemma3(config: Config, shape: ModelShape) -> ModelShape:
    """As Gemma 2 with normed queries and keys; of six layers five slide."""
    every = _positive(config, "sliding_window_pattern", 6)
    gemma = _gemma(config, shape)
    gemma = dataclasses.replace(
        gemma, norms=4, qk_norms=2 * gemma.head_dim, rotations=2, window=shape.window or 4096
    )
    return _sliding(config, gemma, lambda number: (number + 1) % every != 0)


def _gemma3_with_eye(config: Config, shape: ModelShape) -> ModelShape:
    return dataclasses.replace(_gemma3(config, shape), other_parameters=_siglip(config, shape.hidden))


def _siglip(config: Config, hidden: int) -> int:
    """Parameters of the SigLIP encoder and of the projection into the decoder; 0 where config.json has neither."""
    eye = config.get("vision_config")
    if not isinstance(eye, Mapping) or "hidden_size" not in eye:
        return 0
    width, inner = _positive(eye, "hidden_size"), _positive(eye, "intermediate_size")
    patch, image = _positive(eye, "patch_size"), _positive(eye, "image_size")
    layer = 4 * (width * width + width) + 2 * width * inner + inner + width + 2 * 2 * width
    patches = 3 * patch * patch * width + width + (image // patch) ** 2 * width
    return _positive(eye, "num_hidden_layers") * layer + patches + 2 * width + width * hidden + width


def _olmo2(config: Config, shape: ModelShape) -> ModelShape:
    """Queries and keys are normed over all heads together."""
    bias = bool(config.get("attention_bias"))
    width = (shape.heads + shape.kv_heads) * shape.head_dim
    return dataclasses.replace(
        shape, qkv_bias=bias, output_bias=bias, qk_norms=width, window=None, sliding=()
    )


def _smollm3(config: Config, shape: ModelShape) -> ModelShape:
    """Embeddings are tied unless the file says otherwise; what slides, if anything, are the layers without rotation."""
    tied = bool(config.get("tie_word_embeddings", True))
    smollm = dataclasses.replace(_llama(config, shape), tied_embeddings=tied)
    if not config.get("use_sliding_window"):
        return smollm
    unrotated = unrotated_layers(config, shape.layers)
    slid = dataclasses.replace(smollm, window=shape.window, sliding=shape.sliding)
    return _sliding(config, slid, lambda number: number in unrotated)


def unrotated_layers(config: Config, layers: int) -> frozenset[int]:
    """SmolLM 3's layers that do not know positions: those that ``no_rope_layers`` marks with 0, else every fourth.

    Raises:
        ShapeError: ``no_rope_layers`` is too short, or no list.
    """
    marks = config.get("no_rope_layers")
    if marks is None:
        every = _positive(config, "no_rope_layer_interval", 4)
        return frozenset(number for number in range(layers) if (number + 1) % every == 0)
    if not isinstance(marks, list | tuple) or len(marks) < layers:
        raise ShapeError(f"config.json: no_rope_layers must list num_hidden_layers ({layers}) marks")
    return frozenset(number for number in range(layers) if not marks[number])


def _gpt_oss(config: Config, shape: ModelShape) -> ModelShape:
    """Biases everywhere, a sink a head, experts in every layer; every other layer slides, the first one does."""
    experts = Experts(
        count=_positive(config, "num_local_experts"),
        active=_positive(config, "num_experts_per_tok"),
        intermediate=shape.intermediate,
        layers=tuple(range(shape.layers)),
        biases=True,
    )
    bias = bool(config.get("attention_bias", True))
    shape = dataclasses.replace(shape, qkv_bias=bias, output_bias=bias, sinks=True, experts=experts)
    return _sliding(config, shape, lambda number: number % 2 == 0)


def _deepseek(config: Config, shape: ModelShape) -> ModelShape:
    """Multi-head latent attention; the first layers are dense, then each has shared and routed experts."""
    rank = config.get("q_lora_rank")
    bias = bool(config.get("attention_bias"))
    each = _positive(config, "moe_intermediate_size")
    first = _count(config, "first_k_dense_replace")
    step = _positive(config, "moe_layer_freq", 1)
    return dataclasses.replace(
        shape,
        window=None,
        sliding=(),
        head_dim=_positive(config, "qk_nope_head_dim") + _positive(config, "qk_rope_head_dim"),
        qkv_bias=bias,
        output_bias=bias,
        latent=LatentAttention(
            query_rank=None if rank is None else _positive(config, "q_lora_rank"),
            kv_rank=_positive(config, "kv_lora_rank"),
            rope_dim=_positive(config, "qk_rope_head_dim"),
            nope_dim=_positive(config, "qk_nope_head_dim"),
            value_dim=_positive(config, "v_head_dim"),
        ),
        experts=Experts(
            count=_positive(config, "n_routed_experts"),
            active=_positive(config, "num_experts_per_tok"),
            intermediate=each,
            layers=tuple(n for n in range(shape.layers) if n >= first and n % step == 0),
            shared_intermediate=each * _count(config, "n_shared_experts"),
            router_bias=shape.architecture == "DeepseekV3ForCausalLM",
        ),
    )


_READERS: Mapping[str, Callable[[Config, ModelShape], ModelShape]] = {
    "LlamaForCausalLM": _llama,
    "MistralForCausalLM": _mistral,
    "MixtralForCausalLM": _mixtral,
    "Qwen2ForCausalLM": _qwen2,
    "Qwen3ForCausalLM": _qwen3,
    "Qwen2MoeForCausalLM": _qwen2_moe,
    "Qwen3MoeForCausalLM": _qwen3_moe,
    "GemmaForCausalLM": _gemma,
    "Gemma2ForCausalLM": _gemma2,
    "Gemma3ForCausalLM": _gemma3,
    "Gemma3ForConditionalGeneration": _gemma3_with_eye,
    "Phi3ForCausalLM": _mistral,
    "Olmo2ForCausalLM": _olmo2,
    "GraniteForCausalLM": _llama,
    "SmolLM3ForCausalLM": _smollm3,
    "GptOssForCausalLM": _gpt_oss,
    "DeepseekV2ForCausalLM": _deepseek,
    "DeepseekV3ForCausalLM": _deepseek,
}
SIZED_ARCHITECTURES = tuple(_READERS)

# What a published file leaves out because it is what transformers' configuration class says.
_GEMMA3 = {
    "num_attention_heads": 8, "num_key_value_heads": 4, "vocab_size": 262_208, "max_position_embeddings": 131_072,
}  # fmt: skip
_DEFAULTS: Mapping[str, Config] = {
    "Gemma3ForCausalLM": _GEMMA3,
    "Gemma3ForConditionalGeneration": _GEMMA3,
}


def _context(config: Config, architecture: str) -> int:
    """Tokens that the model's positions reach.

    Some scalings reach beyond ``max_position_embeddings``, which is then the original training's; others have it
    there already. Where one object a kind of layer says how positions are scaled, the latter holds.
    """
    limit = _positive(config, "max_position_embeddings")
    scaling = config.get("rope_parameters") or config.get("rope_scaling")
    if not isinstance(scaling, Mapping) or architecture in _SCALED_LIMIT:
        return limit
    factor, original = scaling.get("factor"), scaling.get("original_max_position_embeddings", limit)
    kind = scaling.get("rope_type") or scaling.get("type")
    if kind not in ("linear", "dynamic", "yarn") or not _is_scale(factor) or not _is_scale(original):
        return limit
    return max(limit, int(min(factor * original, _MOST_CONTEXT)))


def _is_scale(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= _MOST_CONTEXT


def _sliding(config: Config, shape: ModelShape, slides: Callable[[int], bool]) -> ModelShape:
    """With the layers that slide: those that ``layer_types`` lists, else those that the family's rule names."""
    if shape.window is None:
        return dataclasses.replace(shape, sliding=())
    if config.get("layer_types"):
        return shape
    return dataclasses.replace(shape, sliding=tuple(filter(slides, range(shape.layers))))


def _listed_window_layers(config: Config, layers: int) -> tuple[int, ...]:
    kinds = config.get("layer_types") or ()
    if not isinstance(kinds, list | tuple) or len(kinds) not in (0, layers):
        raise ShapeError(f"config.json: layer_types must list num_hidden_layers ({layers}) kinds")
    return tuple(number for number, kind in enumerate(kinds) if kind == "sliding_attention")


def _count(config: Config, field: str, default: int = 0) -> int:
    return (
        0 if config.get(field) == 0 else _positive(config, field, default) if config.get(field) else default
    )


def _positive(config: Config, field: str, default: int | None = None) -> int:
    value = config.get(field)
    if value is None:
        value = default
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ShapeError(f"config.json: {field} is {value!r}, a positive whole number is needed")
    return value
