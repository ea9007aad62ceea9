"""What a way of storing matrices has to say. One file each; ``registry.py`` lists them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from llmservice_engine.core.errors import UnsupportedArchitecture, WeightsIncomplete
from llmservice_engine.ops.quantized import QuantizedMatrix

FP8 = torch.float8_e4m3fn


@dataclass(frozen=True, slots=True)
class Module:
    """A linear layer as the checkpoint knows it."""

    name: str  # in full: "model.layers.0.mlp.down_proj"
    rows: int  # outputs
    columns: int  # inputs


@dataclass(frozen=True, slots=True)
class Stored:
    """A tensor of a module in the checkpoint."""

    shape: tuple[int, ...]
    dtype: torch.dtype | None = None  # None: the model's own


class Method(Protocol):
    """One way of storing, with one checkpoint's figures."""

    def tensors(self, module: Module) -> Mapping[str, Stored]:
        """What the checkpoint holds for ``module``, by the last part of its name: ``qweight``, ``scales``.

        Raises:
            UnsupportedArchitecture: the module's size does not fit the format; the message has the figures.
        """
        ...

    def read(self, module: Module, tensors: Mapping[str, Tensor]) -> QuantizedMatrix:
        """The matrix in those tensors.

        Raises:
            WeightsIncomplete: they contradict each other.
        """
        ...

    def unused(self, kind: str) -> bool:
        """Whether a checkpoint may hold a tensor of that last part of a name which is not needed."""
        ...


def served(given: Mapping[str, Any], field: str, *values: object, default: object = None) -> Any:
    """The value of a field of ``quantization_config``, one of ``values``.

    Raises:
        UnsupportedArchitecture: it is another; the message names it and those that are served.
    """
    value = given.get(field, default)
    if isinstance(value, str):
        value = value.lower()
    if value not in values:
        raise refusal(field, given.get(field), values)
    return value


def refusal(field: str, value: object, values: Sequence[object]) -> UnsupportedArchitecture:
    listed = ", ".join(str(one) for one in values)
    return UnsupportedArchitecture(
        f"quantization_config: {field} {value!r} is not served; served: {listed}",
        hint="use a checkpoint that is quantised so, or one that is not quantised",
    )


def group_of(given: Mapping[str, Any], field: str = "group_size") -> int | None:
    """Columns that share a scale; None: all of a row.

    Raises:
        UnsupportedArchitecture: the field holds no such number.
    """
    value = given.get(field)
    if value == -1:
        return None
    if not isinstance(value, int) or value < 1:
        raise refusal(field, value, ("-1", "a positive whole number"))
    return value


def groups(module: Module, size: int | None, *, rows: int = 1, columns: int = 1) -> int:
    """How many groups of ``size`` columns a row of ``module`` has. ``rows`` and ``columns``: packed into one number.

    Raises:
        UnsupportedArchitecture: one of the three does not divide the module's sides.
    """
    for side, length, parts, how in (
        ("columns", module.columns, size or 1, "in groups of"),
        ("columns", module.columns, columns, "packed by"),
        ("rows", module.rows, rows, "packed by"),
    ):
        if length % parts:
            raise UnsupportedArchitecture(
                f"{module.name} has {length} {side} and cannot be quantised {how} {parts}: that is no divisor",
                hint="use a checkpoint that is quantised by a divisor of it, or one that leaves this module out",
            )
    return 1 if size is None else module.columns // size


def indices(module: Module, found: Tensor, groups: int) -> Tensor:
    """``found`` says of each column in which of the ``groups`` it is.

    Raises:
        WeightsIncomplete: it names a group that there is not.
    """
    low, high = int(found.min()), int(found.max())
    if low < 0 or high >= groups:
        raise WeightsIncomplete(
            f"the group index of {module.name} goes from {low} to {high}, there are {groups} groups",
            hint="copy the file again, or use another checkpoint",
        )
    return found
