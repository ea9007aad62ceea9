"""A model's rotary frequencies, from whichever spelling its ``config.json`` has."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from llmservice_engine.core.errors import UnsupportedArchitecture

DEFAULT_THETA = 10_000.0
SERVED = ("default", "llama3")


def frequencies(config: Mapping[str, Any], head_dim: int) -> Tensor:
    """Radians a position, for each pair of a head's dimensions: [head_dim / 2], fp32.

    Newer folders say ``rope_parameters: {rope_theta, rope_type, ...}``, older ones ``rope_theta`` and, where
    scaled, ``rope_scaling: {rope_type | type, ...}``.

    Raises:
        UnsupportedArchitecture: a kind of scaling that is not implemented, or one that lacks a figure.
    """
    parameters = config.get("rope_parameters") or config.get("rope_scaling") or {}
    theta = float(parameters.get("rope_theta") or config.get("rope_theta") or DEFAULT_THETA)
    kind = str(parameters.get("rope_type") or parameters.get("type") or "default")
    if kind not in SERVED:
        raise UnsupportedArchitecture(
            f"rope scaling {kind!r} is not served; served: {', '.join(SERVED)}",
            hint="use a model without it: its text would be wrong beyond the original length",
        )
    plain = theta ** (-torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim)
    return _llama3(plain, parameters) if kind == "llama3" else plain


def _llama3(plain: Tensor, parameters: Mapping[str, Any]) -> Tensor:
    """Slow frequencies divided by the factor, fast ones kept, a smooth passage between."""
    try:
        factor, low, high, original = (
            float(parameters[key])
            for key in ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings")
        )
    except (KeyError, TypeError, ValueError) as error:
        raise UnsupportedArchitecture(
            f"config.json: rope scaling 'llama3' lacks a figure: {error}", hint="copy config.json again"
        ) from None
    turns = original * plain / (2 * math.pi)  # within the original length
    kept = ((turns - low) / (high - low)).clamp(0, 1)
    return plain / factor * (1 - kept) + plain * kept
