"""Rotary position embedding, in the half-split form of Llama checkpoints."""

from __future__ import annotations

import torch
from torch import Tensor


def table(frequencies: Tensor, positions: int, dtype: torch.dtype) -> Tensor:
    """Cosines and signed sines for every position: [positions, 2, head_dim].

    frequencies: [head_dim / 2], radians a position. The sines' first half is negative, so that a rotation is one
    product with the heads and one with the heads' halves swapped.
    """
    angles = torch.outer(torch.arange(positions, dtype=torch.float32), frequencies.float())
    cosines, sines = angles.cos(), angles.sin()
    pairs = torch.stack((torch.cat((cosines, cosines), -1), torch.cat((-sines, sines), -1)), 1)
    return pairs.to(dtype)


def rotate(heads: Tensor, rotations: Tensor) -> Tensor:
    """Rotate each head by its token's position.

    heads: [tokens, heads, head_dim]; rotations: [tokens, 2, head_dim], rows of :func:`table`.
    """
    cosines, sines = rotations.unsqueeze(2).unbind(1)
    return torch.addcmul(heads * cosines, heads.roll(heads.shape[-1] // 2, -1), sines)
