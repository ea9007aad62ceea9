"""RMS normalisation."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional


def rms_norm(x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    """``x`` over its root mean square along the last dimension, times ``weight``. Statistics in fp32.

    x: [tokens, hidden]; weight: [hidden], in fp32 where the product too has to be in fp32.
    """
    if weight.dtype != x.dtype:
        return functional.rms_norm(x.float(), (x.shape[-1],), weight, epsilon).to(x.dtype)
    return functional.rms_norm(x, (x.shape[-1],), weight, epsilon)


def add_rms_norm(
    x: Tensor, residual: Tensor, weight: Tensor, epsilon: float, scale: float = 1.0
) -> tuple[Tensor, Tensor]:
    """The sum ``residual + scale * x``, normed, and the sum itself, which is the next residual. All [tokens, hidden].

    ``residual`` is overwritten.
    """
    residual = torch.add(residual, x, alpha=scale, out=residual)
    return rms_norm(residual, weight, epsilon), residual
