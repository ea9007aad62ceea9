"""A model's shape, read from ``config.json``, and the bytes that follow from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

DTYPE_BYTES: Mapping[str, int] = {"bfloat16": 2, "float16": 2, "float32": 4}
SUPPORTED_ARCHITECTURES = ("LlamaForCausalLM",)


class ShapeError(ValueError):
    """A ``config.json`` from which no shape can be read; the message names the field."""


@dataclass(frozen=True, slots=True)
class ModelShape:
    """A decoder's dimensions. Counts are per model, not per device."""

    architecture: str
    layers: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    context: int  # tokens, the model's own limit
    tied_embeddings: bool
    dtype: str  # of the checkpoint

    def parameters(self) -> int:
        """Number of weights, biases left out (Llama has none)."""
        attention = self.hidden * self.head_dim * (2 * self.heads + 2 * self.kv_heads)
        layer = attention + 3 * self.hidden * self.intermediate + 2 * self.hidden
        embeddings = self.vocabulary * self.hidden * (1 if self.tied_embeddings else 2)
        return self.layers * layer + embeddings + self.hidden

    def weight_bytes(self, dtype: str) -> int:
        return self.parameters() * DTYPE_BYTES[dtype]

    def kv_bytes_per_token(self, dtype: str) -> int:
        """Keys and values of one token in all layers."""
        return 2 * self.layers * self.kv_heads * self.head_dim * DTYPE_BYTES[dtype]

    def activation_bytes(self, dtype: str, step_tokens: int, step_sequences: int) -> int:
        """The largest step's scratch memory: one layer's tensors for every token, logits for every sequence.

        Residual, normed and attention output (3 × hidden), merged QKV, merged gate/up and its product; logits
        are sampled in fp32 and sorted once (three copies).
        """
        qkv = (self.heads + 2 * self.kv_heads) * self.head_dim
        per_token = 3 * self.hidden + qkv + 3 * self.intermediate
        return step_tokens * per_token * DTYPE_BYTES[dtype] + 3 * 4 * step_sequences * self.vocabulary


def from_config(config: Mapping[str, Any]) -> ModelShape:
    """Read a Hugging Face ``config.json``.

    Raises:
        ShapeError: the architecture is not served, or a field is missing or not a positive number.
    """
    architectures = config.get("architectures") or ["(none)"]
    if architectures[0] not in SUPPORTED_ARCHITECTURES:
        raise ShapeError(
            f"architecture {architectures[0]} is not served; served: {', '.join(SUPPORTED_ARCHITECTURES)}"
        )
    heads = _positive(config, "num_attention_heads")
    hidden = _positive(config, "hidden_size")
    kv_heads = _positive(config, "num_key_value_heads", heads)
    if heads % kv_heads:
        raise ShapeError(f"num_attention_heads {heads} is not a multiple of num_key_value_heads {kv_heads}")
    dtype = str(config.get("dtype") or config.get("torch_dtype") or "float32")
    return ModelShape(
        architecture=architectures[0],
        layers=_positive(config, "num_hidden_layers"),
        hidden=hidden,
        intermediate=_positive(config, "intermediate_size"),
        heads=heads,
        kv_heads=kv_heads,
        head_dim=_positive(config, "head_dim", hidden // heads),
        vocabulary=_positive(config, "vocab_size"),
        context=_positive(config, "max_position_embeddings"),
        tied_embeddings=bool(config.get("tie_word_embeddings", False)),
        dtype=dtype if dtype in DTYPE_BYTES else "float32",
    )


def _positive(config: Mapping[str, Any], field: str, default: int | None = None) -> int:
    value = config.get(field)
    if value is None:
        value = default
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ShapeError(f"config.json: {field} is {value!r}, a positive whole number is needed")
    return value
