"""What an attention implementation gives, and the cache that all of them share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from llmservice_engine.core.step import Chunk


@dataclass(frozen=True, slots=True)
class KVCache:
    """Keys and values of every layer, in blocks.

    A head's tokens lie together within a block, so that one gather over (block, head) rows gives a sequence's
    keys in the order in which matrix products want them.
    """

    keys: tuple[Tensor, ...]  # a layer each: [blocks, kv_heads, block_size, head_dim]
    values: tuple[Tensor, ...]  # the same

    @property
    def block_size(self) -> int:
        return self.keys[0].shape[2]


def allocate(
    *,
    layers: int,
    blocks: int,
    kv_heads: int,
    block_size: int,
    head_dim: int,
    dtype: torch.dtype,
    device: str,
) -> KVCache:
    """An empty cache. On a CPU a page of it costs memory only once it is written."""

    def tensors() -> tuple[Tensor, ...]:
        shape = (blocks, kv_heads, block_size, head_dim)
        return tuple(torch.empty(shape, dtype=dtype, device=device) for _ in range(layers))

    return KVCache(tensors(), tensors())


@dataclass(frozen=True, slots=True)
class LayerAttention:
    """What one layer asks of its attention."""

    scale: float  # of the products of queries and keys
    window: int | None = None  # newest tokens that a token sees, itself among them; None: all of them
    soft_cap: float | None = (
        None  # scaled products pass through ``soft_cap * tanh(x / soft_cap)``; None: they do not
    )


class StepAttention(Protocol):
    """Attention of one step's tokens; called once a layer, in order."""

    def __call__(self, layer: int, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Write ``keys`` and ``values`` to the cache, then let each token attend to its sequence up to itself.

        Scale, window and soft cap are those of ``layer``.

        queries: [tokens, heads, head_dim]; keys, values: [tokens, kv_heads, head_dim]; tokens in the order of the
        chunks that the step was prepared with. Returns [tokens, heads * head_dim].
        """
        ...


class Attention(Protocol):
    """An implementation, bound to a cache and to each layer's :class:`LayerAttention`."""

    def prepare(self, chunks: Sequence[Chunk]) -> StepAttention:
        """Everything about a step that is the same in all layers.

        Chunks of one token come first, shortest sequence first, so that like lengths are neighbours.
        """
        ...
