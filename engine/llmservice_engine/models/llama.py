"""The Llama decoder: RMS norm, rotary attention with grouped heads, gated feed-forward."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from llmservice_planner.shape import ModelShape
from torch import Tensor
from torch.nn import functional

from llmservice_engine.core.errors import UnsupportedArchitecture
from llmservice_engine.models import rope as model_rope
from llmservice_engine.ops import linear, rope
from llmservice_engine.ops.activation import silu_mul
from llmservice_engine.ops.attention.interface import StepAttention
from llmservice_engine.ops.norm import add_rms_norm, rms_norm


class Llama:
    """Weights and forward pass. Query, key and value are one product, gate and up another."""

    def __init__(self, shape: ModelShape, config: Mapping[str, Any], dtype: torch.dtype, device: str) -> None:
        _refuse_what_is_not_served(config)
        self._shape = shape
        self._epsilon = float(config.get("rms_norm_eps", 1e-6))
        self._rotations = rope.table(model_rope.frequencies(config, shape.head_dim), shape.context, dtype).to(
            device
        )
        make = _Maker(dtype, device)
        self._embedding = make.matrix(shape.vocabulary, shape.hidden)
        self._layers = [_Layer.empty(shape, config, make) for _ in range(shape.layers)]
        self._norm = make.vector(shape.hidden)
        self._head = (
            Linear(self._embedding) if shape.tied_embeddings else make.linear(shape.vocabulary, shape.hidden)
        )

    def targets(self) -> dict[str, Tensor]:
        named = {"model.embed_tokens.weight": self._embedding, "model.norm.weight": self._norm}
        if not self._shape.tied_embeddings:
            named["lm_head.weight"] = self._head.weight
        for number, layer in enumerate(self._layers):
            parts = layer.targets(self._shape)
            named |= {f"model.layers.{number}.{name}": target for name, target in parts.items()}
        return named

    def unused(self, name: str) -> bool:
        """Old checkpoints carry the rotary frequencies; tied ones may carry the head once more."""
        tied_head = self._shape.tied_embeddings and name == "lm_head.weight"
        return tied_head or name.endswith("rotary_emb.inv_freq")

    def finish(self) -> None:
        for layer in self._layers:
            for part in (layer.qkv, layer.output, layer.gate_up, layer.down):
                part.finish()
        self._head.finish()

    def forward(self, token_ids: Tensor, positions: Tensor, attention: StepAttention) -> Tensor:
        rotations = self._rotations[positions]
        residual = functional.embedding(token_ids, self._embedding)
        norms = [layer.attention_norm for layer in self._layers] + [self._norm]
        normed = rms_norm(residual, norms[0], self._epsilon)
        for number, layer in enumerate(self._layers):
            attended = self._attend(number, layer, normed, rotations, attention)
            normed, residual = add_rms_norm(attended, residual, layer.feed_norm, self._epsilon)
            fed = layer.down(silu_mul(layer.gate_up(normed)))
            normed, residual = add_rms_norm(fed, residual, norms[number + 1], self._epsilon)
        return normed

    def logits(self, hidden: Tensor) -> Tensor:
        return self._head(hidden)

    def _attend(
        self, number: int, layer: _Layer, normed: Tensor, rotations: Tensor, attention: StepAttention
    ) -> Tensor:
        shape = self._shape
        heads = layer.qkv(normed).view(normed.shape[0], -1, shape.head_dim)
        turned = shape.heads + shape.kv_heads
        rotated = rope.rotate(heads[:, :turned], rotations)
        queries, keys = rotated[:, : shape.heads], rotated[:, shape.heads :]
        return layer.output(attention(number, queries, keys, heads[:, turned:]))


class Linear:
    """A weight [out, in], filled from the checkpoint, then handed to the fastest product."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        self.weight = weight
        self.bias = bias

    def finish(self) -> None:
        self._product = linear.choose(self.weight, self.bias)
        del self.weight  # the product may keep a packed copy instead; two copies would double the memory

    def __call__(self, x: Tensor) -> Tensor:
        return self._product(x)


@dataclass(frozen=True, slots=True)
class _Maker:
    """Empty tensors of one type on one device."""

    dtype: torch.dtype
    device: str

    def vector(self, size: int) -> Tensor:
        return torch.empty(size, dtype=self.dtype, device=self.device)

    def matrix(self, rows: int, columns: int) -> Tensor:
        return torch.empty(rows, columns, dtype=self.dtype, device=self.device)

    def linear(self, rows: int, columns: int, *, bias: bool = False) -> Linear:
        return Linear(self.matrix(rows, columns), self.vector(rows) if bias else None)


@dataclass(frozen=True, slots=True)
class _Layer:
    attention_norm: Tensor
    qkv: Linear
    output: Linear
    feed_norm: Tensor
    gate_up: Linear
    down: Linear

    @classmethod
    def empty(cls, shape: ModelShape, config: Mapping[str, Any], make: _Maker) -> _Layer:
        attention_bias, feed_bias = bool(config.get("attention_bias")), bool(config.get("mlp_bias"))
        attended = shape.heads * shape.head_dim
        both = 2 * shape.kv_heads * shape.head_dim
        return cls(
            attention_norm=make.vector(shape.hidden),
            qkv=make.linear(attended + both, shape.hidden, bias=attention_bias),
            output=make.linear(shape.hidden, attended, bias=attention_bias),
            feed_norm=make.vector(shape.hidden),
            gate_up=make.linear(2 * shape.intermediate, shape.hidden, bias=feed_bias),
            down=make.linear(shape.hidden, shape.intermediate, bias=feed_bias),
        )

    def targets(self, shape: ModelShape) -> dict[str, Tensor]:
        named = {
            "input_layernorm.weight": self.attention_norm,
            "post_attention_layernorm.weight": self.feed_norm,
        }
        rows = [count * shape.head_dim for count in (shape.heads, shape.kv_heads, shape.kv_heads)]
        for merged, parts, sizes in (
            (self.qkv, [f"self_attn.{part}_proj" for part in "qkv"], rows),
            (self.output, ["self_attn.o_proj"], [shape.hidden]),
            (self.gate_up, ["mlp.gate_proj", "mlp.up_proj"], [shape.intermediate] * 2),
            (self.down, ["mlp.down_proj"], [shape.hidden]),
        ):
            for kind, whole in (("weight", merged.weight), ("bias", merged.bias)):
                if whole is not None:
                    views = torch.split(whole, sizes)
                    named |= {f"{part}.{kind}": view for part, view in zip(parts, views, strict=True)}
        return named


def _refuse_what_is_not_served(config: Mapping[str, Any]) -> None:
    activation = config.get("hidden_act", "silu")
    if activation not in ("silu", "swish"):
        raise UnsupportedArchitecture(f"hidden_act {activation!r} is not served; served: silu")
    if config.get("quantization_config"):
        method = config["quantization_config"].get("quant_method", "unknown")
        raise UnsupportedArchitecture(
            f"quantization {method!r} is not served", hint="use a checkpoint in bfloat16, float16 or float32"
        )
    if config.get("partial_rotary_factor", 1) != 1:
        raise UnsupportedArchitecture(
            f"partial_rotary_factor {config['partial_rotary_factor']} is not served; served: 1"
        )
