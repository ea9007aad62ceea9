"""Matrix products with the checkpoint's weights, and the one place that makes them.

Every layer asks a :class:`Maker` for its products. A quantised or a sharded kind of product is a class with the methods
of :class:`Linear` and a maker that returns it (``models/weights/linear.py``); no layer changes.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from llmservice_planner.dimensions import Split
from torch import Tensor

from llmservice_engine.ops import linear


@dataclass(frozen=True, slots=True)
class Part:
    """Rows of a product that belong together, such as its keys'."""

    name: str  # of the checkpoint's module, in full: "model.layers.0.self_attn.k_proj"
    rows: int
    split: Split = "none"  # how tensor parallelism shares it


class Linear(Protocol):
    """One product: [tokens, in] → [tokens, out]."""

    def targets(self) -> Mapping[str, Tensor]:
        """Where the checkpoint's tensors go, by name. Asked once, before :meth:`finish`."""
        ...

    def finish(self) -> None:
        """Called once, after the targets are filled."""
        ...

    def __call__(self, x: Tensor) -> Tensor: ...


class Maker(Protocol):
    """Makes products, and the tensors that are never quantised, empty."""

    @property
    def dtype(self) -> torch.dtype:
        """Of activations, and of what is not quantised."""
        ...

    @property
    def device(self) -> str: ...

    def linear(self, parts: Sequence[Part], columns: int, *, bias: bool = False) -> Linear:
        """One product for all ``parts``, side by side in this order; neighbours of one name are one tensor there."""
        ...

    def tied(self, embedding: Tensor) -> Linear:
        """The head that multiplies by the embedding [vocabulary, hidden] itself; it has no targets of its own."""
        ...

    def tensor(self, *size: int, dtype: torch.dtype | None = None) -> Tensor:
        """An empty tensor, of the model's type where none is given."""
        ...

    def unused(self, name: str) -> bool:
        """Whether a checkpoint may hold a tensor of that name which no product needs."""
        ...


class DenseLinear:
    """A weight [out, in], filled from the checkpoint, then handed to the fastest product."""

    def __init__(self, parts: Sequence[Part], weight: Tensor, bias: Tensor | None = None) -> None:
        self._parts = parts
        self._weight = weight
        self._bias = bias

    def targets(self) -> Mapping[str, Tensor]:
        grouped = itertools.groupby(self._parts, key=lambda part: part.name)
        rows = {name: sum(part.rows for part in parts) for name, parts in grouped}
        found: dict[str, Tensor] = {}
        for kind, whole in (("weight", self._weight), ("bias", self._bias)):
            if rows and whole is not None:
                views = torch.split(whole, list(rows.values()))
                found |= {f"{name}.{kind}": view for name, view in zip(rows, views, strict=True)}
        return found

    def finish(self) -> None:
        self._product = linear.choose(self._weight, self._bias)
        del self._weight  # the product may keep a packed copy instead; two copies would double the memory

    def __call__(self, x: Tensor) -> Tensor:
        return self._product(x)


@dataclass(frozen=True, slots=True)
class DenseMaker:
    """Everything in one type, whole, on one device."""

    dtype: torch.dtype
    device: str

    def linear(self, parts: Sequence[Part], columns: int, *, bias: bool = False) -> Linear:
        rows = sum(part.rows for part in parts)
        return DenseLinear(parts, self.tensor(rows, columns), self.tensor(rows) if bias else None)

    def tied(self, embedding: Tensor) -> Linear:
        return DenseLinear((), embedding)

    def tensor(self, *size: int, dtype: torch.dtype | None = None) -> Tensor:
        return torch.empty(size, dtype=dtype or self.dtype, device=self.device)

    def unused(self, name: str) -> bool:
        return False
