"""Which attention runs where."""

from __future__ import annotations

from llmservice_engine.ops.attention.grouped import GroupedAttention
from llmservice_engine.ops.attention.interface import Attention, KVCache


def choose(cache: KVCache, *, heads: int) -> Attention:
    """The fastest implementation for the cache's device."""
    return GroupedAttention(cache, heads=heads)
