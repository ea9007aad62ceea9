"""The attention block: one product for queries, keys and values, their norms and rotation, the output's product."""

from __future__ import annotations

from collections.abc import Mapping

from llmservice_planner.shape import ModelShape
from torch import Tensor

from llmservice_engine.models.layers.linear import Maker, Part
from llmservice_engine.models.layers.norm import HeadNorm, WidthNorm
from llmservice_engine.models.layers.traits import Traits
from llmservice_engine.ops import rope
from llmservice_engine.ops.attention.interface import StepAttention


class Attention:
    """Of one layer."""

    def __init__(self, number: int, name: str, shape: ModelShape, traits: Traits, make: Maker) -> None:
        self._number = number
        self._heads, self._head_dim = shape.heads, shape.head_dim
        self._turned = shape.heads + shape.kv_heads  # heads that positions turn: queries' and keys'
        attended, cached = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
        names = [f"{name}.qkv_proj"] * 3 if traits.merged else [f"{name}.{part}_proj" for part in "qkv"]
        parts = (
            Part(names[0], attended, "rows"),
            Part(names[1], cached, "kv rows"),
            Part(names[2], cached, "kv rows"),
        )
        self._qkv = make.linear(parts, shape.hidden, bias=shape.qkv_bias)
        output = Part(f"{name}.o_proj", shape.hidden, "columns")
        self._output = make.linear((output,), attended, bias=shape.output_bias)
        self._norm: HeadNorm | WidthNorm | None = None
        if traits.qk_norm is not None:
            kind = HeadNorm if traits.qk_norm == "head" else WidthNorm
            self._norm = kind(name, shape, traits, make)

    def targets(self) -> Mapping[str, Tensor]:
        norms = self._norm.targets() if self._norm is not None else {}
        return {**self._qkv.targets(), **self._output.targets(), **norms}

    def finish(self) -> None:
        self._qkv.finish()
        self._output.finish()
        if self._norm is not None:
            self._norm.finish()

    def __call__(self, x: Tensor, rotations: Tensor | None, attend: StepAttention) -> Tensor:
        """x: [tokens, hidden]; rotations: [tokens, 2, rotary_dim], or None: nothing is rotated."""
        heads = self._qkv(x).view(x.shape[0], -1, self._head_dim)
        turned, values = heads[:, : self._turned], heads[:, self._turned :]
        if self._norm is not None:
            turned = self._norm(turned)
        if rotations is not None:
            turned = rope.rotate(turned, rotations)
        queries, keys = turned[:, : self._heads], turned[:, self._heads :]
        return self._output(attend(self._number, queries, keys, values))
