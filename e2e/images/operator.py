"""The operator's image."""

from __future__ import annotations

from e2e.images import dockerfile
from e2e.images.oci import Image

INPUTS = ("pyproject.toml", "operator/llmservice_operator", "engine/llmservice_planner")


def ensure() -> Image:
    return dockerfile.ensure("llmservice-operator", "operator/Dockerfile", INPUTS)
