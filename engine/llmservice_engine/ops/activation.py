"""The gated activation of a feed-forward layer."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor
from torch.nn import functional

Gated = Callable[[Tensor], Tensor]


def silu_mul(gate_up: Tensor) -> Tensor:
    """``silu(gate) * up`` for gate and up side by side: [tokens, 2 * intermediate] → [tokens, intermediate]."""
    gate, up = gate_up.chunk(2, dim=-1)
    return functional.silu(gate).mul_(up)


def gelu_mul(gate_up: Tensor) -> Tensor:
    """As :func:`silu_mul`, with the exact GELU."""
    gate, up = gate_up.chunk(2, dim=-1)
    return functional.gelu(gate).mul_(up)


def gelu_tanh_mul(gate_up: Tensor) -> Tensor:
    """As :func:`silu_mul`, with GELU's approximation by tanh."""
    gate, up = gate_up.chunk(2, dim=-1)
    return functional.gelu(gate, approximate="tanh").mul_(up)


# By the names that ``config.json`` has for them.
GATED: Mapping[str, Gated] = {
    "silu": silu_mul,
    "swish": silu_mul,
    "gelu": gelu_mul,
    "gelu_new": gelu_tanh_mul,
    "gelu_pytorch_tanh": gelu_tanh_mul,
}


def soft_cap(x: Tensor, cap: float) -> Tensor:
    """``cap * tanh(x / cap)``, in place: nearly ``x`` where that is small, never beyond ``cap``."""
    return torch.tanh_(x.div_(cap)).mul_(cap)
