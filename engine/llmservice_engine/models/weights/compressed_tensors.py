"""compressed-tensors, as llm-compressor writes it: packed int4 and int8, plain int8, and fp8."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from llmservice_planner import quantization
from torch import Tensor

from llmservice_engine.models.weights import interface
from llmservice_engine.models.weights.interface import FP8, Module, Stored
from llmservice_engine.ops.quantized import QuantizedMatrix

_FORMATS = ("pack-quantized", "int-quantized", "float-quantized", "naive-quantized")


@dataclass(frozen=True, slots=True)
class CompressedTensors:
    packed: bool  # into int32, codes and zero points less their least value
    dtype: torch.dtype  # of codes that are not packed
    bits: int
    block: tuple[int, int | None]  # rows and columns that share a scale; None: all
    symmetric: bool
    scattered: bool  # groups lie scattered over the columns, as an index says

    @classmethod
    def configured(cls, given: Mapping[str, Any]) -> CompressedTensors:
        """Raises UnsupportedArchitecture where ``quantization_config`` asks for another kind."""
        scheme = _scheme(given)
        own = scheme.get("format") or given.get("format")  # newer files name it in each scheme
        form = interface.served({"format": own}, "format", *_FORMATS)
        weights = scheme["weights"]
        floating = interface.served(weights, "type", "int", "float", default="int") == "float"
        packed = form == "pack-quantized"
        if (form == "float-quantized" and not floating) or (form in _FORMATS[:2] and floating):
            raise interface.refusal(f"type of {form} weights", weights.get("type"), ("the format's own",))
        bits = interface.served(weights, "num_bits", *((4, 8) if packed else (8,)))
        block = _block(weights)
        if block[0] > 1:
            interface.served(weights, "symmetric", True, default=True)
        return cls(
            packed=packed,
            dtype=FP8 if floating else torch.int8,
            bits=bits,
            block=block,
            symmetric=bool(weights.get("symmetric", True)),
            scattered=quantization.orders_columns(weights),
        )

    def tensors(self, module: Module) -> Mapping[str, Stored]:
        if self.packed:
            return self._packed(module)
        rows, groups = self._groups(module)
        found = {
            "weight": Stored((module.rows, module.columns), self.dtype),
            "weight_scale": Stored((rows, groups)),
        }
        if not self.symmetric:
            found["weight_zero_point"] = Stored((rows, groups), self.dtype)
        return found

    def _packed(self, module: Module) -> Mapping[str, Stored]:
        each = 32 // self.bits
        interface.groups(module, None, rows=1 if self.symmetric else each, columns=each)
        rows, groups = self._groups(module)
        found = {
            "weight_packed": Stored((module.rows, module.columns // each), torch.int32),
            "weight_scale": Stored((rows, groups)),
        }
        if not self.symmetric:
            found["weight_zero_point"] = Stored((rows // each, groups), torch.int32)
        if self.scattered:
            found["weight_g_idx"] = Stored((module.columns,), torch.int32)
        return found

    def read(self, module: Module, tensors: Mapping[str, Tensor]) -> QuantizedMatrix:
        scales, zeros = tensors["weight_scale"], tensors.get("weight_zero_point")
        if zeros is not None:
            zeros = zeros.t().contiguous()
        if self.packed:
            codes = tensors["weight_packed"].view(torch.uint8)
            zeros = None if zeros is None else zeros.view(torch.uint8)
        else:
            codes = tensors["weight"]
        index = tensors.get("weight_g_idx")
        rows, columns = self.block
        return QuantizedMatrix(
            module.rows,
            module.columns,
            codes,
            scales,
            (rows, columns or module.columns),
            bits=self.bits,
            zeros=zeros,
            offset=2 ** (self.bits - 1) if self.packed else 0,
            group_of=None if index is None else interface.indices(module, index, scales.shape[1]),
        )

    def unused(self, kind: str) -> bool:
        """Activations stay in the model's type, and so does the KV cache; a symmetric zero point is none."""
        return kind in (
            "weight_shape", "weight_g_idx", "weight_zero_point", "input_scale", "input_zero_point",
            "k_scale", "v_scale",
        )  # fmt: skip

    def _groups(self, module: Module) -> tuple[int, int]:
        """Blocks of rows, and groups of columns. Only blocks of both may be cut at the end."""
        rows, columns = self.block
        if columns is None or rows == 1:
            return module.rows, interface.groups(module, columns)
        return -(-module.rows // rows), -(-module.columns // columns)


def _scheme(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """The one scheme that all linear layers have."""
    schemes = given.get("config_groups")
    if not isinstance(schemes, Mapping) or len(schemes) != 1:
        found = len(schemes) if isinstance(schemes, Mapping) else schemes
        raise interface.refusal("number of config_groups", found, (1,))
    scheme: Mapping[str, Any] = next(iter(schemes.values()))
    if list(scheme.get("targets") or ()) != ["Linear"]:
        raise interface.refusal("targets", scheme.get("targets"), (["Linear"],))
    if not isinstance(scheme.get("weights"), Mapping):
        raise interface.refusal("weights", scheme.get("weights"), ("an object",))
    interface.served(given.get("sparsity_config") or {}, "format", "dense", default="dense")
    if given.get("transform_config"):
        raise interface.refusal("transform_config", given["transform_config"], ("none",))
    return scheme


def _block(weights: Mapping[str, Any]) -> tuple[int, int | None]:
    match quantization.strategy(weights):
        case "tensor" | "channel":
            return 1, None
        case "group":
            return 1, interface.group_of(weights)
        case "block":
            rows, columns = weights.get("block_structure") or (128, 128)
            return rows, columns
        case other:
            raise interface.refusal("strategy", other, ("tensor", "channel", "group", "block"))
