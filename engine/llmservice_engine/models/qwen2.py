"""Qwen 2 and 2.5: Llama with biases on queries, keys and values, a window in later layers. Both are in the shape."""

from __future__ import annotations

from llmservice_engine.models.llama import traits

__all__ = ["traits"]
