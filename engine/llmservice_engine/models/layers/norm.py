"""RMS norms with weights, of the hidden state and of queries and keys."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from llmservice_planner.shape import ModelShape
from torch import Tensor

from llmservice_engine.models.layers.linear import Maker
from llmservice_engine.models.layers.traits import Traits
from llmservice_engine.ops.norm import add_rms_norm, rms_norm


class RmsNorm:
    """A norm of the last dimension."""

    def __init__(self, name: str, size: int, traits: Traits, make: Maker) -> None:
        self._name = name
        self._epsilon = traits.epsilon
        self._offset = traits.norm_offset
        # 1 + w is told apart from 1 in fp32 only.
        self.weight = make.tensor(size, dtype=torch.float32 if traits.norm_offset else None)

    def targets(self) -> Mapping[str, Tensor]:
        return {f"{self._name}.weight": self.weight}

    def finish(self) -> None:
        if self._offset:
            self.weight.add_(self._offset)

    def __call__(self, x: Tensor) -> Tensor:
        return rms_norm(x, self.weight, self._epsilon)

    def add(self, x: Tensor, residual: Tensor, scale: float) -> tuple[Tensor, Tensor]:
        """``residual + scale * x``, normed, and that sum, which takes the place of ``residual``."""
        return add_rms_norm(x, residual, self.weight, self._epsilon, scale)


class HeadNorm:
    """Queries and keys normed head by head (Qwen 3, Gemma 3)."""

    def __init__(self, name: str, shape: ModelShape, traits: Traits, make: Maker) -> None:
        self._parts = [RmsNorm(f"{name}.{part}_norm", shape.head_dim, traits, make) for part in ("q", "k")]
        self._heads = (shape.heads, shape.kv_heads)
        self._epsilon = traits.epsilon

    def targets(self) -> Mapping[str, Tensor]:
        return {key: target for part in self._parts for key, target in part.targets().items()}

    def finish(self) -> None:
        """One weight a head, so that queries and keys are normed together: [heads + kv_heads, head_dim]."""
        for part in self._parts:
            part.finish()
        repeated = [
            part.weight.expand(heads, -1) for part, heads in zip(self._parts, self._heads, strict=True)
        ]
        self._weight = torch.cat(repeated)
        self._ones = torch.ones_like(self._weight[0])

    def __call__(self, turned: Tensor) -> Tensor:
        """turned: [tokens, heads + kv_heads, head_dim], queries first. Returns the same."""
        return (rms_norm(turned.to(self._weight.dtype), self._ones, self._epsilon) * self._weight).to(
            turned.dtype
        )


class WidthNorm:
    """Queries, and keys, normed over all their heads together (OLMo 2)."""

    def __init__(self, name: str, shape: ModelShape, traits: Traits, make: Maker) -> None:
        self._widths = [shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim]
        self._parts = [
            RmsNorm(f"{name}.{part}_norm", width, traits, make)
            for part, width in zip(("q", "k"), self._widths, strict=True)
        ]

    def targets(self) -> Mapping[str, Tensor]:
        return {key: target for part in self._parts for key, target in part.targets().items()}

    def finish(self) -> None:
        for part in self._parts:
            part.finish()

    def __call__(self, turned: Tensor) -> Tensor:
        """turned: [tokens, heads + kv_heads, head_dim], queries first. Returns the same."""
        wide = torch.split(turned.flatten(1), self._widths, 1)
        normed = [part(x) for part, x in zip(self._parts, wide, strict=True)]
        return torch.cat(normed, 1).view(turned.shape)
