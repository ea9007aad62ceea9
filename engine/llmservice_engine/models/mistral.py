"""Mistral: Llama whose layers may see a window only. Which layers do is in the shape."""

from __future__ import annotations

from llmservice_engine.models.llama import traits

__all__ = ["traits"]
