"""Which attention runs where."""

from __future__ import annotations

from collections.abc import Sequence

from llmservice_engine.ops.attention.grouped import GroupedAttention
from llmservice_engine.ops.attention.interface import Attention, KVCache, LayerAttention


def choose(cache: KVCache, *, heads: int, layers: Sequence[LayerAttention]) -> Attention:
    """The fastest implementation for the cache's device. ``layers``: what each layer asks for, in order."""
    return GroupedAttention(cache, heads=heads, layers=layers)
