"""Attention out of torch's own operators, each request over its own pages.

Sequences that add one token are taken together where their lengths are alike: their pages are gathered into one
padded batch, so that a step costs a few large products rather than many small ones. Longer chunks are taken one by
one. No mask ever spans the batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from llmservice_engine.core.step import Chunk
from llmservice_engine.ops.attention.interface import KVCache

# Tokens that one group may gather: enough to fill the products, few enough to stay in a core's share of the cache.
GROUP_TOKENS = 16_384
# Padding that a group may carry, as a share of its tokens: more groups cost more calls, padding costs more bytes.
PADDING = 0.2


class GroupedAttention:
    """See the module. Keys and values are read without being expanded to the number of query heads."""

    def __init__(self, cache: KVCache, *, heads: int) -> None:
        self._cache = cache
        self._heads = heads
        _, self._kv_heads, self._block_size, self._head_dim = cache.keys[0].shape
        self._device = cache.keys[0].device

    def prepare(self, chunks: Sequence[Chunk]) -> _Step:
        singles = [chunk for chunk in chunks if len(chunk.token_ids) == 1]
        parts: list[_Group | _Run] = []
        row = 0
        for members in _alike(singles, self._block_size):
            parts.append(self._group(members, row))
            row += len(members)
        for chunk in chunks[len(singles) :]:
            parts.append(self._run(chunk, row))
            row += len(chunk.token_ids)
        return _Step(self._cache, self._slots(chunks), self._begun(chunks), tuple(parts))

    def _begun(self, chunks: Sequence[Chunk]) -> Tensor | None:
        """Blocks that get their first token in this step and are not full after it.

        They are cleared first: a product over a padded block must not meet what its last owner left there. Padding
        has no weight, but nought times NaN is NaN.
        """
        size = self._block_size
        begun = [
            chunk.block_table[chunk.end // size]
            for chunk in chunks
            if chunk.end % size and chunk.end // size * size >= chunk.start
        ]
        return torch.tensor(begun, device=self._device) if begun else None

    def _slots(self, chunks: Sequence[Chunk]) -> Tensor:
        """Where each new token goes: rows of the cache seen as [blocks * kv_heads * block_size, head_dim]."""
        size = self._block_size
        places = [
            chunk.block_table[position // size] * self._kv_heads * size + position % size
            for chunk in chunks
            for position in range(chunk.start, chunk.end)
        ]
        heads = torch.arange(self._kv_heads) * size
        return (torch.tensor(places).unsqueeze(1) + heads).flatten().to(self._device)

    def _pages(self, tables: Sequence[Sequence[int]]) -> Tensor:
        """Rows of the cache seen as [blocks * kv_heads, block_size * head_dim], by sequence, head, page."""
        heads = torch.arange(self._kv_heads)[:, None]
        return (torch.tensor(tables)[:, None, :] * self._kv_heads + heads).flatten().to(self._device)

    def _group(self, members: Sequence[Chunk], row: int) -> _Group:
        pages = len(members[-1].block_table)
        tables = [
            chunk.block_table + chunk.block_table[:1] * (pages - len(chunk.block_table)) for chunk in members
        ]
        lengths = torch.tensor([chunk.end for chunk in members])
        beyond = torch.arange(pages * self._block_size) >= lengths[:, None]
        mask = torch.zeros(beyond.shape).masked_fill_(beyond, float("-inf"))
        mask = mask.repeat_interleave(self._kv_heads, dim=0).unsqueeze(1)
        return _Group(
            rows=slice(row, row + len(members)),
            pages=self._pages(tables),
            mask=mask.to(self._device, self._cache.keys[0].dtype),
        )

    def _run(self, chunk: Chunk, row: int) -> _Run:
        count = len(chunk.token_ids)
        later = None
        if chunk.start:
            later = torch.ones(count, chunk.end, dtype=torch.bool, device=self._device).tril_(chunk.start)
        table = chunk.block_table[: -(-chunk.end // self._block_size)]
        return _Run(slice(row, row + count), self._pages([table]), chunk.end, later)


@dataclass(frozen=True, slots=True)
class _Group:
    """Sequences with one new token each."""

    rows: slice  # of the step's tokens
    pages: Tensor  # [sequences * kv_heads * pages]
    mask: Tensor  # [sequences * kv_heads, 1, pages * block_size]: 0, or -inf beyond a sequence's end

    def attend(self, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """queries: [sequences, heads, head_dim]; keys, values: a layer's cache. Returns what queries are."""
        batch, _, padded = self.mask.shape
        dim = queries.shape[-1]
        folded = queries.reshape(
            batch, -1, dim
        )  # the query heads that share a key head are rows of one product
        found = _gather(keys, self.pages).view(batch, padded, dim)
        scores = torch.baddbmm(self.mask, folded, found.transpose(1, 2), alpha=dim**-0.5)
        found = _gather(values, self.pages).view(batch, padded, dim)
        return torch.bmm(scores.softmax(-1), found).view(queries.shape)


@dataclass(frozen=True, slots=True)
class _Run:
    """One sequence with several new tokens."""

    rows: slice
    pages: Tensor  # [kv_heads * pages]
    length: int  # tokens, the new ones too
    visible: Tensor | None  # [new, length]; None: the sequence starts here, so the causal mask is known

    def attend(self, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """queries: [new, heads, head_dim]; keys, values: a layer's cache. Returns what queries are."""
        kv_heads, _, dim = keys.shape[1:]
        out = functional.scaled_dot_product_attention(
            queries.transpose(0, 1).unsqueeze(0),
            _gather(keys, self.pages).view(1, kv_heads, -1, dim)[:, :, : self.length],
            _gather(values, self.pages).view(1, kv_heads, -1, dim)[:, :, : self.length],
            attn_mask=self.visible,
            is_causal=self.visible is None,
            enable_gqa=True,
        )
        return out.squeeze(0).transpose(0, 1)


@dataclass(frozen=True, slots=True)
class _Step:
    cache: KVCache
    slots: Tensor  # [tokens * kv_heads]
    begun: Tensor | None  # [blocks]
    parts: tuple[_Group | _Run, ...]

    def __call__(self, layer: int, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        cached_keys, cached_values = self.cache.keys[layer], self.cache.values[layer]
        for cached, new in ((cached_keys, keys), (cached_values, values)):
            dim = new.shape[-1]
            if self.begun is not None:
                cached.index_fill_(0, self.begun, 0)
            cached.view(-1, dim).index_copy_(0, self.slots, new.reshape(-1, dim))
        if len(self.parts) == 1:
            return self.parts[0].attend(queries, cached_keys, cached_values).flatten(1)
        out = torch.empty_like(queries)
        for part in self.parts:
            out[part.rows] = part.attend(queries[part.rows], cached_keys, cached_values)
        return out.flatten(1)


def _gather(cached: Tensor, pages: Tensor) -> Tensor:
    blocks, kv_heads, block_size, dim = cached.shape
    return cached.view(blocks * kv_heads, block_size * dim).index_select(0, pages)


def _alike(chunks: Sequence[Chunk], block_size: int) -> Iterator[Sequence[Chunk]]:
    """Cut ``chunks``, shortest sequence first, into groups that neither carry much padding nor grow too large."""
    begin, pages = 0, 0
    for end, chunk in enumerate(chunks):
        longest = len(chunk.block_table)
        padded = longest * (end + 1 - begin)
        crowded = padded * block_size > GROUP_TOKENS
        wasteful = padded > (pages + longest) * (1 + PADDING)
        if end > begin and (crowded or wasteful):
            yield chunks[begin:end]
            begin, pages = end, 0
        pages += longest
    if begin < len(chunks):
        yield chunks[begin:]
