"""AWQ: int4 with a zero point for each group of a row, packed for its GEMM kernel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from llmservice_engine.models.weights import interface
from llmservice_engine.models.weights.interface import Module, Stored
from llmservice_engine.ops import quantized
from llmservice_engine.ops.quantized import QuantizedMatrix

_PACKED = 8  # rows in one int32
# The row whose code lies at each 4 bits, from the lowest.
_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)


@dataclass(frozen=True, slots=True)
class Awq:
    group: int | None  # columns that share a scale; None: all

    @classmethod
    def configured(cls, given: Mapping[str, Any]) -> Awq:
        """Raises UnsupportedArchitecture where ``quantization_config`` asks for another kind."""
        given = {"bits": given.get("w_bit"), "group_size": given.get("q_group_size"), **given}
        interface.served(given, "bits", 4)
        interface.served(given, "version", "gemm", default="gemm")
        interface.served(given, "zero_point", True, default=True)
        return cls(interface.group_of(given))

    def tensors(self, module: Module) -> Mapping[str, Stored]:
        groups = interface.groups(module, self.group, rows=_PACKED, columns=2)
        return {
            "qweight": Stored((module.columns, module.rows // _PACKED), torch.int32),
            "qzeros": Stored((groups, module.rows // _PACKED), torch.int32),
            "scales": Stored((groups, module.rows)),
        }

    def read(self, module: Module, tensors: Mapping[str, Tensor]) -> QuantizedMatrix:
        return QuantizedMatrix(
            module.rows,
            module.columns,
            quantized.pack(_rows(tensors["qweight"]).t().contiguous(), 4),
            tensors["scales"].t().contiguous(),
            (1, self.group or module.columns),
            bits=4,
            zeros=quantized.pack(_rows(tensors["qzeros"]), 4),
        )

    def unused(self, kind: str) -> bool:
        return False


def _rows(packed: Tensor) -> Tensor:
    """[n, rows / 8] int32 → [n, rows] uint8."""
    rows = torch.empty(*packed.shape, _PACKED, dtype=torch.uint8, device=packed.device)
    for place, row in enumerate(_ORDER):
        rows[..., row] = packed >> 4 * place & 15
    return rows.flatten(1)
