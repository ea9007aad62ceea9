"""Whether a folder holds a whole model: config.json, every shard that the index names, no shard cut short."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llmservice_operator.fetch import selection
from llmservice_operator.fetch.errors import WeightsIncomplete

_LONGEST_HEADER = 100 << 20  # bytes; safetensors' own limit


@dataclass(frozen=True, slots=True)
class Header:
    """Of one safetensors file."""

    bytes: int  # that the file must have
    parameters: Mapping[str, int]  # by dtype, as safetensors writes it


def check(folder: Path, where: str) -> Counter[str]:
    """The parameters by dtype of the safetensors files in ``folder``, which people know as ``where``.

    Raises:
        WeightsIncomplete: a shard is missing or cut; the message names it.
    """
    index = folder / selection.INDEX
    if index.is_file():
        named = shards_of(index.read_bytes(), where)
        present = {path.name for path in folder.iterdir() if path.is_file()}
        missing(named, present, where)
    else:
        named = {path.name for path in folder.glob("*.safetensors") if path.is_file()}
    parameters: Counter[str] = Counter()
    for name in sorted(named):
        found, size = _header(folder / name, f"{where}/{name}"), (folder / name).stat().st_size
        if size != found.bytes:
            raise WeightsIncomplete(
                f"{where}/{name} has {size:,} bytes, its header promises {found.bytes:,}",
                hint="copy this file again",
                figures={"required_bytes": found.bytes, "available_bytes": size},
            )
        parameters.update(found.parameters)
    return parameters


def shards_of(index: bytes, where: str) -> set[str]:
    """The files that an index names.

    Raises:
        WeightsIncomplete: it cannot be read.
    """
    try:
        weight_map = json.loads(index)["weight_map"]
        return {str(name) for name in weight_map.values()}
    except (ValueError, KeyError, TypeError, AttributeError):
        raise WeightsIncomplete(
            f"{where}/{selection.INDEX} is damaged: it has no weight_map", hint="copy this file again"
        ) from None


def missing(named: Collection[str], present: Collection[str], where: str) -> None:
    """Raise :class:`WeightsIncomplete` where a shard of the index is not there."""
    if absent := sorted(set(named) - set(present)):
        more = f" and {len(absent) - 3} more" if len(absent) > 3 else ""
        raise WeightsIncomplete(
            f"{where} lacks {len(absent)} of {len(set(named))} shards that {selection.INDEX} names: "
            f"{', '.join(absent[:3])}{more}",
            hint="bring the missing files to where the others are",
        )


def _header(path: Path, where: str) -> Header:
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if length > _LONGEST_HEADER:
                raise ValueError(f"its header would have {length} bytes")
            tensors: dict[str, Any] = json.loads(file.read(length))
        tensors.pop("__metadata__", None)
        parameters: Counter[str] = Counter()
        end = 0
        for tensor in tensors.values():
            parameters[tensor["dtype"]] += math.prod(tensor["shape"])
            end = max(end, tensor["data_offsets"][1])
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise WeightsIncomplete(
            f"{where} is no whole safetensors file: {error}", hint="copy this file again"
        ) from None
    return Header(8 + length + end, parameters)
