"""Rotary position embedding, in the half-split form of Llama checkpoints."""

from __future__ import annotations

import torch
from torch import Tensor


def table(frequencies: Tensor, positions: int, dtype: torch.dtype, magnitude: float = 1.0) -> Tensor:
    """Cosines and signed sines for every position, times ``magnitude``: [positions, 2, rotary_dim].

    frequencies: [rotary_dim / 2], radians a position. The sines' first half is negative, so that a rotation is one
    product with the heads and one with the heads' halves swapped.
    """
    angles = torch.outer(torch.arange(positions, dtype=torch.float32), frequencies.float())
    cosines, sines = angles.cos().mul_(magnitude), angles.sin().mul_(magnitude)
    pairs = torch.stack((torch.cat((cosines, cosines), -1), torch.cat((-sines, sines), -1)), 1)
    return pairs.to(dtype)


def rotate(heads: Tensor, rotations: Tensor) -> Tensor:
    """Rotate each head by its token's position; what lies beyond ``rotary_dim`` stays as it is.

    heads: [tokens, heads, head_dim]; rotations: [tokens, 2, rotary_dim], rows of :func:`table`.
    """
    cosines, sines = rotations.unsqueeze(2).unbind(1)
    rotary_dim = rotations.shape[-1]
    if rotary_dim < heads.shape[-1]:
        turned, rest = heads[..., :rotary_dim], heads[..., rotary_dim:]
        return torch.cat((_rotate(turned, cosines, sines), rest), -1)
    return _rotate(heads, cosines, sines)


def _rotate(heads: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
    return torch.addcmul(heads * cosines, heads.roll(heads.shape[-1] // 2, -1), sines)
