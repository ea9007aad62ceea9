"""``llmservice-engine``: ``serve`` and ``bench``. Importing it takes no torch."""

from llmservice_engine.cli.main import main

__all__ = ["main"]
