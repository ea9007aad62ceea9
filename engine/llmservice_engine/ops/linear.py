"""Matrix products with a weight that stays."""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

Product = Callable[[Tensor], Tensor]  # [tokens, in] → [tokens, out]

_PACK_FOR_TOKENS = 16  # a hint to oneDNN; one packing serves every number of tokens


def choose(weight: Tensor, bias: Tensor | None = None) -> Product:
    """The fastest product with ``weight`` [out, in] here. Where it packs, it keeps no reference to ``weight``."""
    if weight.device.type == "cpu" and packs(weight.dtype):
        return _packed(weight, bias)
    return functools.partial(functional.linear, weight=weight, bias=bias)


@functools.cache
def packs(dtype: torch.dtype) -> bool:
    """Whether products on this CPU keep a packed copy of their weight.

    In bf16 oneDNN would otherwise reorder the weight in every call, which costs more than a small product itself.
    In fp32 it multiplies the plain weight just as fast.
    """
    if dtype is not torch.bfloat16:
        return False
    try:
        _packed(torch.ones(32, 32, dtype=dtype), None)(torch.ones(1, 32, dtype=dtype))
    except (AttributeError, RuntimeError):  # private operators: another torch may lack them
        return False
    return True


def _packed(weight: Tensor, bias: Tensor | None) -> Product:
    packed = torch.ops.mkldnn._reorder_linear_weight(weight, _PACK_FOR_TOKENS)
    multiply = torch.ops.mkldnn._linear_pointwise.default

    def product(x: Tensor) -> Tensor:
        result: Tensor = multiply(x, packed, bias, "none", [], "")
        return result

    return product
