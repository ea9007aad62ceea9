"""``llmservice-operator``: what people and the chart type."""

from __future__ import annotations

from llmservice_operator.cli.main import main

__all__ = ["main"]
