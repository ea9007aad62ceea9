"""Attention as the textbook has it: one token at a time, in fp32. For tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from llmservice_engine.core.step import Chunk
from llmservice_engine.ops.attention.interface import KVCache, LayerAttention


class ReferenceAttention:
    """Slow and plain."""

    def __init__(self, cache: KVCache, *, heads: int, layers: Sequence[LayerAttention]) -> None:
        self._cache = cache
        self._heads = heads
        self._layers = layers

    def prepare(self, chunks: Sequence[Chunk]) -> _Step:
        return _Step(self._cache, self._heads, self._layers, tuple(chunks))


@dataclass(frozen=True, slots=True)
class _Step:
    cache: KVCache
    heads: int
    layers: Sequence[LayerAttention]
    chunks: tuple[Chunk, ...]

    def __call__(self, layer: int, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        size = self.cache.block_size
        asked = self.layers[layer]
        rows: list[Tensor] = []
        for chunk in self.chunks:
            for position in range(chunk.start, chunk.end):
                row = len(rows)
                block, offset = chunk.block_table[position // size], position % size
                self.cache.keys[layer][block, :, offset] = keys[row]
                self.cache.values[layer][block, :, offset] = values[row]
                seen = range(position + 1)[-asked.window if asked.window else None :]
                past_keys = self._read(self.cache.keys[layer], chunk, seen)
                past_values = self._read(self.cache.values[layer], chunk, seen)
                scores = torch.einsum("hd,thd->ht", queries[row].float(), past_keys) * asked.scale
                if asked.soft_cap:
                    scores = asked.soft_cap * (scores / asked.soft_cap).tanh()
                weights = scores.softmax(-1)
                rows.append(torch.einsum("ht,thd->hd", weights, past_values).flatten())
        return torch.stack(rows).to(queries.dtype)

    def _read(self, cached: Tensor, chunk: Chunk, seen: range) -> Tensor:
        """Of the positions ``seen``, each key/value head repeated for its queries: [tokens, heads, head_dim]."""
        size = self.cache.block_size
        found = torch.stack([cached[chunk.block_table[t // size], :, t % size] for t in seen])
        return found.float().repeat_interleave(self.heads // cached.shape[1], dim=1)
