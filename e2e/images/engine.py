"""The engine's image: 6 GB with torch, so it is built when asked for, not by every test run."""

from __future__ import annotations

from e2e.images import dockerfile
from e2e.images.oci import Image

INPUTS = ("pyproject.toml", "engine/llmservice_engine", "engine/llmservice_planner")


def ensure() -> Image:
    return dockerfile.ensure("llmservice-engine", "engine/Dockerfile", INPUTS)
