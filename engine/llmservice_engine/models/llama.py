"""Llama 2 and 3: RMS norms before each block, rotary attention with grouped heads, a gated feed-forward."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llmservice_planner.shape import ModelShape

from llmservice_engine.core.errors import UnsupportedArchitecture
from llmservice_engine.models import rope
from llmservice_engine.models.layers.traits import Traits
from llmservice_engine.models.rope import Rope
from llmservice_engine.ops.activation import GATED
from llmservice_engine.ops.attention.interface import LayerAttention


def traits(shape: ModelShape, config: Mapping[str, Any]) -> Traits:
    """Also what most other families begin with.

    Raises:
        UnsupportedArchitecture: ``config`` asks for something that is not served; the message names it.
    """
    return plain(shape, config, rope.read(config, shape))


def plain(
    shape: ModelShape,
    config: Mapping[str, Any],
    turned: Rope,
    *,
    scale: float | None = None,
    soft_cap: float | None = None,
) -> Traits:
    """Llama's ways with another rotation or attention. ``scale``: of queries and keys, else by the heads' width.

    Raises:
        UnsupportedArchitecture: see :func:`traits`.
    """
    activation = config.get("hidden_activation") or config.get("hidden_act") or "silu"
    if activation not in GATED:
        raise UnsupportedArchitecture(f"hidden_act {activation!r} is not served; served: {', '.join(GATED)}")
    attention = (
        LayerAttention(
            scale=shape.head_dim**-0.5 if scale is None else scale,
            window=shape.window if number in shape.sliding else None,
            soft_cap=soft_cap,
        )
        for number in range(shape.layers)
    )
    return Traits(
        ropes=(turned,) * shape.layers,
        attention=tuple(attention),
        epsilon=float(config.get("rms_norm_eps", 1e-6)),
        activation=activation,
    )
