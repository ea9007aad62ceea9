"""fp8, as DeepSeek and Qwen publish it (a scale for each block) and as vLLM writes it (one for a matrix or a row)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from llmservice_engine.models.weights import interface
from llmservice_engine.models.weights.interface import FP8, Module, Stored
from llmservice_engine.ops.quantized import QuantizedMatrix


@dataclass(frozen=True, slots=True)
class Fp8:
    block: tuple[int, int] | None  # rows and columns that share a scale; None: a row's

    @classmethod
    def configured(cls, given: Mapping[str, Any]) -> Fp8:
        """Raises UnsupportedArchitecture where ``quantization_config`` asks for another kind."""
        interface.served(given, "fmt", "e4m3", "float8_e4m3fn", default="e4m3")
        interface.served(given, "activation_scheme", "dynamic", "static", default="dynamic")
        block = given.get("weight_block_size")
        return cls(None if block is None else (int(block[0]), int(block[1])))

    def tensors(self, module: Module) -> Mapping[str, Stored]:
        codes = Stored((module.rows, module.columns), FP8)
        if self.block is None:
            return {"weight": codes, "weight_scale": Stored((module.rows,), torch.float32)}
        rows, columns = self.block
        scales = (-(-module.rows // rows), -(-module.columns // columns))
        return {"weight": codes, "weight_scale_inv": Stored(scales, torch.float32)}

    def read(self, module: Module, tensors: Mapping[str, Tensor]) -> QuantizedMatrix:
        """``weight_scale_inv`` is multiplied too, whatever its name."""
        codes = tensors["weight"]
        if self.block is None:
            scales = tensors["weight_scale"].unsqueeze(1)
            return QuantizedMatrix(module.rows, module.columns, codes, scales, (1, module.columns))
        scales = tensors["weight_scale_inv"]
        return QuantizedMatrix(module.rows, module.columns, codes, scales, self.block)

    def unused(self, kind: str) -> bool:
        """Activations stay in the model's type, and so does the KV cache."""
        return kind in ("input_scale", "activation_scale", "k_scale", "v_scale")
