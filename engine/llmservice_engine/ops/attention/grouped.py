"""Attention out of torch's own operators, each request over its own pages.

Sequences that add one token are taken together where their lengths are alike: their pages are gathered into one
padded batch, so that a step costs a few large products rather than many small ones. Longer chunks are taken one by
one. No mask ever spans the batch. A layer with a window gathers the pages that its window touches, and no others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from llmservice_engine.core.step import Chunk
from llmservice_engine.ops.activation import soft_cap
from llmservice_engine.ops.attention.interface import KVCache, LayerAttention

# Tokens that one group may gather: enough to fill the products, few enough to stay in a core's share of the cache.
GROUP_TOKENS = 16_384
# Padding that a group may carry, as a share of its tokens: more groups cost more calls, padding costs more bytes.
PADDING = 0.2
# Products of queries and keys that exist at once where they are soft capped: the fused attention does not do that.
CAPPED_SCORES = 2**22


class GroupedAttention:
    """See the module. Keys and values are read without being expanded to the number of query heads."""

    def __init__(self, cache: KVCache, *, heads: int, layers: Sequence[LayerAttention]) -> None:
        self._cache = cache
        self._heads = heads
        self._layers = tuple(layers)
        self._capped = any(layer.soft_cap for layer in layers)
        _, self._kv_heads, self._block_size, self._head_dim = cache.keys[0].shape
        self._device = cache.keys[0].device

    def prepare(self, chunks: Sequence[Chunk]) -> _Step:
        longest = max(chunk.end for chunk in chunks)
        windows = [min(layer.window or longest, longest) for layer in self._layers]
        parts = {window: self._parts(chunks, window) for window in set(windows)}
        by_layer = tuple(parts[window] for window in windows)
        return _Step(self._cache, self._layers, self._slots(chunks), self._begun(chunks), by_layer)

    def _parts(self, chunks: Sequence[Chunk], window: int) -> tuple[_Group | _Run, ...]:
        singles = [_Seen.of(chunk, window, self._block_size) for chunk in chunks if len(chunk.token_ids) == 1]
        parts: list[_Group | _Run] = []
        row = 0
        for members in _alike(singles, self._block_size):
            parts.append(self._group(members, row, window))
            row += len(members)
        for chunk in chunks[len(singles) :]:
            parts.append(self._run(chunk, row, window))
            row += len(chunk.token_ids)
        return tuple(parts)

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

    def _group(self, members: Sequence[_Seen], row: int, window: int) -> _Group:
        pages = max(len(seen.table) for seen in members)
        tables = [seen.table + seen.table[:1] * (pages - len(seen.table)) for seen in members]
        lengths = torch.tensor([seen.length for seen in members])[:, None]
        places = torch.arange(pages * self._block_size)
        unseen = (places >= lengths) | (places < lengths - window)
        mask = torch.zeros(unseen.shape).masked_fill_(unseen, float("-inf"))
        mask = mask.repeat_interleave(self._kv_heads, dim=0).unsqueeze(1)
        return _Group(
            rows=slice(row, row + len(members)),
            pages=self._pages(tables),
            mask=mask.to(self._device, self._cache.keys[0].dtype),
        )

    def _run(self, chunk: Chunk, row: int, window: int) -> _Run:
        count = len(chunk.token_ids)
        seen = _Seen.of(chunk, window, self._block_size)
        visible = None
        if chunk.start or chunk.end > window or self._capped:
            newest = seen.length - count  # place of the first new token
            visible = torch.ones(count, seen.length, dtype=torch.bool, device=self._device).tril_(newest)
            if seen.length > window:
                visible = visible.triu_(newest - window + 1)
        return _Run(slice(row, row + count), self._pages([seen.table]), seen.length, visible)


@dataclass(frozen=True, slots=True)
class _Seen:
    """The pages of a sequence that the tokens of its chunk see."""

    table: tuple[int, ...]
    length: int  # tokens in those pages, the new ones too

    @classmethod
    def of(cls, chunk: Chunk, window: int, block_size: int) -> _Seen:
        first = max(0, chunk.start - window + 1) // block_size
        return cls(chunk.block_table[first : -(-chunk.end // block_size)], chunk.end - first * block_size)


@dataclass(frozen=True, slots=True)
class _Group:
    """Sequences with one new token each."""

    rows: slice  # of the step's tokens
    pages: Tensor  # [sequences * kv_heads * pages]
    mask: Tensor  # [sequences * kv_heads, 1, pages * block_size]: 0, or -inf where a sequence sees nothing

    def attend(self, layer: LayerAttention, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """queries: [sequences, heads, head_dim]; keys, values: a layer's cache. Returns what queries are."""
        batch, _, padded = self.mask.shape
        dim = queries.shape[-1]
        folded = queries.reshape(
            batch, -1, dim
        )  # the query heads that share a key head are rows of one product
        found = _gather(keys, self.pages).view(batch, padded, dim).transpose(1, 2)
        if layer.soft_cap is None:
            scores = torch.baddbmm(self.mask, folded, found, alpha=layer.scale)
        else:
            scores = soft_cap(torch.bmm(folded, found).mul_(layer.scale), layer.soft_cap).add_(self.mask)
        found = _gather(values, self.pages).view(batch, padded, dim)
        return torch.bmm(scores.softmax(-1), found).view(queries.shape)


@dataclass(frozen=True, slots=True)
class _Run:
    """One sequence with several new tokens."""

    rows: slice
    pages: Tensor  # [kv_heads * pages]
    length: int  # tokens in the pages, the new ones too
    visible: Tensor | None  # [new, length]; None: the sequence starts here, so the causal mask is known

    def attend(self, layer: LayerAttention, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """queries: [new, heads, head_dim]; keys, values: a layer's cache. Returns what queries are."""
        kv_heads, _, dim = keys.shape[1:]
        heads = queries.transpose(0, 1).unsqueeze(0)
        found_keys = _gather(keys, self.pages).view(1, kv_heads, -1, dim)[:, :, : self.length]
        found_values = _gather(values, self.pages).view(1, kv_heads, -1, dim)[:, :, : self.length]
        if layer.soft_cap is not None:
            out = self._capped(layer, layer.soft_cap, heads[0], found_keys[0], found_values[0])
            return out.transpose(0, 1)
        out = functional.scaled_dot_product_attention(
            heads,
            found_keys,
            found_values,
            attn_mask=self.visible,
            is_causal=self.visible is None,
            scale=layer.scale,
            enable_gqa=True,
        )
        return out.squeeze(0).transpose(0, 1)

    def _capped(
        self, layer: LayerAttention, cap: float, queries: Tensor, keys: Tensor, values: Tensor
    ) -> Tensor:
        """queries: [heads, new, head_dim]; keys, values: [kv_heads, length, head_dim]. Returns what queries are."""
        assert self.visible is not None
        heads, count, dim = queries.shape
        kv_heads = len(keys)
        grouped = queries.reshape(kv_heads, heads // kv_heads, count, dim)
        out = torch.empty_like(grouped)
        some = max(1, CAPPED_SCORES // (heads * self.length))
        for begin in range(0, count, some):
            rows = slice(begin, begin + some)
            scores = torch.matmul(grouped[:, :, rows], keys.unsqueeze(1).transpose(2, 3)).mul_(layer.scale)
            scores = soft_cap(scores, cap).masked_fill_(~self.visible[rows], float("-inf"))
            out[:, :, rows] = torch.matmul(scores.softmax(-1), values.unsqueeze(1))
        return out.view(queries.shape)


@dataclass(frozen=True, slots=True)
class _Step:
    cache: KVCache
    layers: tuple[LayerAttention, ...]
    slots: Tensor  # [tokens * kv_heads]
    begun: Tensor | None  # [blocks]
    parts: tuple[tuple[_Group | _Run, ...], ...]  # a layer each; layers of one window share theirs

    def __call__(self, layer: int, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        cached_keys, cached_values = self.cache.keys[layer], self.cache.values[layer]
        for cached, new in ((cached_keys, keys), (cached_values, values)):
            dim = new.shape[-1]
            if self.begun is not None:
                cached.index_fill_(0, self.begun, 0)
            cached.view(-1, dim).index_copy_(0, self.slots, new.reshape(-1, dim))
        asked, parts = self.layers[layer], self.parts[layer]
        if len(parts) == 1:
            return parts[0].attend(asked, queries, cached_keys, cached_values).flatten(1)
        out = torch.empty_like(queries)
        for part in parts:
            out[part.rows] = part.attend(asked, queries[part.rows], cached_keys, cached_values)
        return out.flatten(1)


def _gather(cached: Tensor, pages: Tensor) -> Tensor:
    blocks, kv_heads, block_size, dim = cached.shape
    return cached.view(blocks * kv_heads, block_size * dim).index_select(0, pages)


def _alike(seen: Sequence[_Seen], block_size: int) -> Iterator[Sequence[_Seen]]:
    """Cut ``seen``, shortest sequence first, into groups that neither carry much padding nor grow too large."""
    begin, pages, longest = 0, 0, 0
    for end, member in enumerate(seen):
        longest = max(longest, len(member.table))  # a window may touch one page more than the next one's
        padded = longest * (end + 1 - begin)
        crowded = padded * block_size > GROUP_TOKENS
        wasteful = padded > (pages + len(member.table)) * (1 + PADDING)
        if end > begin and (crowded or wasteful):
            yield seen[begin:end]
            begin, pages, longest = end, 0, len(member.table)
        pages += len(member.table)
    if begin < len(seen):
        yield seen[begin:]
