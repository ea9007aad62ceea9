"""The gated activation of a feed-forward layer."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional


def silu_mul(gate_up: Tensor) -> Tensor:
    """``silu(gate) * up`` for gate and up side by side: [tokens, 2 * intermediate] → [tokens, intermediate]."""
    gate, up = gate_up.chunk(2, dim=-1)
    return functional.silu(gate).mul_(up)
