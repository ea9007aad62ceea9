"""Matrix products with a weight that stays quantised. Every format of integers or fp8 comes here in one layout."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from llmservice_engine.ops.linear import Product

PIECE = 2**20  # weights that exist dequantised at once, where a block of rows has no more


@dataclass(frozen=True, slots=True)
class QuantizedMatrix:
    """A weight [rows, columns]: ``(code - zero) * scale``."""

    rows: int
    columns: int
    codes: Tensor  # [rows, columns] int8, uint8 or fp8; of 4 bits uint8 [rows, columns / 2], see pack()
    scales: Tensor  # [rows / block rows, groups] of any floating type
    block: tuple[int, int]  # rows and columns that share a scale
    bits: int = 8
    zeros: Tensor | None = None  # [groups, rows], stored as the codes are
    offset: int = 0  # the zero of all groups where there are no ``zeros``
    group_of: Tensor | None = None  # [columns]: each one's group, where groups do not follow each other

    def __len__(self) -> int:
        return self.rows


def choose(matrices: Sequence[QuantizedMatrix | Tensor], bias: Tensor | None, dtype: torch.dtype) -> Product:
    """The product with all ``matrices`` [rows, in], side by side. A kernel for a device is chosen here.

    The reference makes a piece of the weight at a time, in each call anew, and keeps none.
    """
    pieces: list[QuantizedMatrix | Tensor] = []
    for one in matrices:
        pieces += [one] if isinstance(one, Tensor) else _pieces(one)
    ends = list(itertools.accumulate(len(one) for one in pieces))

    def product(x: Tensor) -> Tensor:
        out = x.new_empty(len(x), ends[-1])
        for piece, end in zip(pieces, ends, strict=True):
            weight = piece if isinstance(piece, Tensor) else dequantise(piece, dtype)
            out[:, end - len(piece) : end] = functional.linear(x, weight)
        return out if bias is None else out.add_(bias)

    return product


def dequantise(matrix: QuantizedMatrix, dtype: torch.dtype) -> Tensor:
    """The weight [rows, columns], computed in fp32."""
    weight = unpack(matrix.codes, matrix.bits).to(torch.float32)
    if matrix.zeros is not None:
        weight -= _spread(unpack(matrix.zeros, matrix.bits).t().to(torch.float32), matrix)
    elif matrix.offset:
        weight -= matrix.offset
    weight *= _spread(matrix.scales.to(torch.float32), matrix)
    return weight.to(dtype)


def pack(codes: Tensor, bits: int) -> Tensor:
    """Codes of 4 bits, two a byte, the even one low: [..., n] → [..., n / 2]. Those of 8 bits stay."""
    if bits == 8:
        return codes
    even, odd = codes[..., 0::2], codes[..., 1::2]
    return even | (odd << 4)


def unpack(packed: Tensor, bits: int) -> Tensor:
    """The other way round."""
    if bits == 8:
        return packed
    return torch.stack((packed & 15, packed >> 4), -1).flatten(-2)


def _pieces(matrix: QuantizedMatrix) -> list[QuantizedMatrix]:
    """Views of some rows each, of whole blocks."""
    block = max(2, matrix.block[0])  # packed zeros lie in pairs of rows
    step = max(1, PIECE // matrix.columns // block) * block
    return [_rows(matrix, first, min(first + step, matrix.rows)) for first in range(0, matrix.rows, step)]


def _rows(matrix: QuantizedMatrix, first: int, end: int) -> QuantizedMatrix:
    block, in_byte = matrix.block[0], 8 // matrix.bits
    return dataclasses.replace(
        matrix,
        rows=end - first,
        codes=matrix.codes[first:end],
        scales=matrix.scales[first // block : -(-end // block)],
        zeros=None if matrix.zeros is None else matrix.zeros[:, first // in_byte : -(-end // in_byte)],
    )


def _spread(each: Tensor, matrix: QuantizedMatrix) -> Tensor:
    """What is known of each group [row groups, groups], as a figure of each weight, or as one that broadcasts."""
    if matrix.group_of is not None:
        return each[:, matrix.group_of]
    rows, columns = matrix.block
    if each.shape[1] > 1:
        each = each.repeat_interleave(columns, 1)[:, : matrix.columns]
    if each.shape[0] > 1 and rows > 1:
        each = each.repeat_interleave(rows, 0)[: matrix.rows]
    return each
