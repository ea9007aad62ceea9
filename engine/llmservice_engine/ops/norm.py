"""RMS normalisation."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional


def rms_norm(x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    """``x`` over its root mean square along the last dimension, times ``weight``. Statistics in fp32.

    x: [tokens, hidden]; weight: [hidden].
    """
    return functional.rms_norm(x, (x.shape[-1],), weight, epsilon)


def add_rms_norm(x: Tensor, residual: Tensor, weight: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
    """The sum ``residual + x``, normed, and the sum itself, which is the next residual. All [tokens, hidden].

    ``residual`` is overwritten.
    """
    residual = torch.add(residual, x, out=residual)
    return rms_norm(residual, weight, epsilon), residual
