"""Products whose weight the checkpoint stores in its own way."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from llmservice_planner.quantization import Quantization
from torch import Tensor

from llmservice_engine.models.layers.linear import DenseMaker, Linear, Part
from llmservice_engine.models.weights.interface import Method, Module
from llmservice_engine.ops import quantized


class QuantizedLinear:
    """Several modules of the checkpoint side by side. Those that it leaves unquantised may be among them."""

    def __init__(
        self,
        modules: Sequence[Module],
        plain: frozenset[str],
        method: Method,
        make: DenseMaker,
        *,
        bias: bool,
    ) -> None:
        """``plain``: the names of unquantised modules."""
        self._modules = modules
        self._method = method
        self._dtype = make.dtype
        self._stored = {
            module.name: {
                kind: make.tensor(*one.shape, dtype=one.dtype) for kind, one in method.tensors(module).items()
            }
            for module in modules
            if module.name not in plain
        }
        self._plain = {
            module.name: make.tensor(module.rows, module.columns)
            for module in modules
            if module.name in plain
        }
        self._bias = make.tensor(sum(module.rows for module in modules)) if bias else None

    def targets(self) -> Mapping[str, Tensor]:
        found = {f"{name}.weight": weight for name, weight in self._plain.items()}
        for name, tensors in self._stored.items():
            found.update({f"{name}.{kind}": tensor for kind, tensor in tensors.items()})
        if self._bias is not None:
            views = torch.split(self._bias, [module.rows for module in self._modules])
            found.update({f"{one.name}.bias": view for one, view in zip(self._modules, views, strict=True)})
        return found

    def finish(self) -> None:
        """Takes the checkpoint's tensors over one by one, so that never two copies of all exist."""
        matrices = [
            self._plain[module.name]
            if module.name in self._plain
            else self._method.read(module, self._stored.pop(module.name))
            for module in self._modules
        ]
        self._product = quantized.choose(matrices, self._bias, self._dtype)

    def __call__(self, x: Tensor) -> Tensor:
        return self._product(x)


@dataclass(frozen=True, slots=True)
class QuantizedMaker:
    """As :class:`DenseMaker`, with the modules that ``quantization`` does not leave out stored by ``method``."""

    dense: DenseMaker
    method: Method
    quantization: Quantization

    @property
    def dtype(self) -> torch.dtype:
        return self.dense.dtype

    @property
    def device(self) -> str:
        return self.dense.device

    def linear(self, parts: Sequence[Part], columns: int, *, bias: bool = False) -> Linear:
        grouped = itertools.groupby(parts, key=lambda part: part.name)
        modules = [Module(name, sum(part.rows for part in own), columns) for name, own in grouped]
        plain = frozenset(one.name for one in modules if self.quantization.leaves_out(one.name))
        if len(plain) == len(modules):
            return self.dense.linear(parts, columns, bias=bias)
        return QuantizedLinear(modules, plain, self.method, self.dense, bias=bias)

    def tied(self, embedding: Tensor) -> Linear:
        return self.dense.tied(embedding)

    def tensor(self, *size: int, dtype: torch.dtype | None = None) -> Tensor:
        return self.dense.tensor(*size, dtype=dtype)

    def unused(self, name: str) -> bool:
        return self.method.unused(name.rpartition(".")[2])
