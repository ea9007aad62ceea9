"""``python -m llmservice_operator``."""

from __future__ import annotations

from llmservice_operator.cli import main

main()
