"""GPTQ: int4 or int8 with a zero point for each group of a row; with ``desc_act`` groups are scattered."""

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


@dataclass(frozen=True, slots=True)
class Gptq:
    bits: int
    group: int | None  # columns that share a scale; None: all
    scattered: bool  # over the columns, as g_idx says
    zero_shift: int  # what the stored zero points lack

    @classmethod
    def configured(cls, given: Mapping[str, Any]) -> Gptq:
        """Raises UnsupportedArchitecture where ``quantization_config`` asks for another kind."""
        bits = interface.served(given, "bits", 4, 8)
        form = interface.served(given, "checkpoint_format", "gptq", "gptq_v2", default="gptq")
        other = [rule for rule in given.get("dynamic") or () if not str(rule).startswith("-:")]
        if other:
            raise interface.refusal("dynamic", other[0], ("rules that begin with -:",))
        return cls(bits, interface.group_of(given), bool(given.get("desc_act")), 1 if form == "gptq" else 0)

    def tensors(self, module: Module) -> Mapping[str, Stored]:
        packed = 32 // self.bits
        groups = interface.groups(module, self.group, rows=packed, columns=packed)
        found = {
            "qweight": Stored((module.columns // packed, module.rows), torch.int32),
            "qzeros": Stored((groups, module.rows // packed), torch.int32),
            "scales": Stored((groups, module.rows)),
        }
        return {**found, "g_idx": Stored((module.columns,), torch.int32)} if self.scattered else found

    def read(self, module: Module, tensors: Mapping[str, Tensor]) -> QuantizedMatrix:
        zeros = tensors["qzeros"].view(torch.uint8)
        if self.zero_shift:  # the first version stores them less 1, which wraps
            shifted = quantized.unpack(zeros, self.bits) + self.zero_shift
            zeros = quantized.pack(shifted & (2**self.bits - 1), self.bits)
        return QuantizedMatrix(
            module.rows,
            module.columns,
            tensors["qweight"].t().contiguous().view(torch.uint8),
            tensors["scales"].t().contiguous(),
            (1, self.group or module.columns),
            bits=self.bits,
            zeros=zeros,
            group_of=interface.indices(module, tensors["g_idx"], len(zeros)) if self.scattered else None,
        )

    def unused(self, kind: str) -> bool:
        return kind == "g_idx"
