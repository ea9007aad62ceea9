"""What a quantised checkpoint's weights take, read from ``quantization_config`` of its ``config.json``."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from llmservice_planner.errors import ShapeError

_BNB_BLOCK = 64  # weights that share one scale in bitsandbytes' 4-bit types
_BNB_NESTED = 256  # such scales that share one fp32 scale, where they are quantised too ("double quant")
_MXFP4_BLOCK = 32  # OCP Microscaling Formats 1.0: 32 elements of 4 bits share one 8-bit exponent


@dataclass(frozen=True, slots=True)
class Quantization:
    """How the matrices of linear layers are stored. Embeddings, norms, routers and biases are not."""

    method: str
    bits: int  # of one weight
    rows: int | None = 1  # output channels that share a scale; None: all of them
    columns: int | None = None  # input channels that share a scale; None: all of them
    scale_bits: float | None = None  # of one such group's scale; None: the scale is of the model's type
    zero_bits: int = 0  # of its zero point
    column_bits: int = 0  # for every input channel of a matrix: GPTQ's g_idx
    # Modules that stay as they are, and those that alone do not: names, parts of names, or ``re:`` patterns.
    left_out: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    head: bool = False  # whether ``lm_head`` is quantised too

    def matrix_bytes(self, rows: int, columns: int, plain: int = 2) -> int:
        """Bytes of a matrix [rows, columns], scales and zero points included. ``plain``: of the model's own type."""
        groups = _groups(rows, self.rows) * _groups(columns, self.columns)
        group_bits = (8 * plain if self.scale_bits is None else self.scale_bits) + self.zero_bits
        return _ceil((rows * columns * self.bits + groups * group_bits + columns * self.column_bits) / 8)

    def leaves_out(self, module: str) -> bool:
        """Whether ``module``, a full name such as ``model.layers.0.mlp.gate``, stays unquantised."""
        if not self.head and module.rpartition(".")[2] == "lm_head":
            return True
        if self.only and not any(_names(entry, module) for entry in self.only):
            return True
        return any(_names(entry, module) for entry in self.left_out)


def from_config(config: Mapping[str, Any]) -> Quantization | None:
    """The model's quantisation, or None where it has none.

    Raises:
        ShapeError: a method that cannot be sized, or one without its figures.
    """
    given = section(config)
    if given is None:
        return None
    method = str(given.get("quant_method", "unknown"))
    if method not in _READERS:
        raise ShapeError(f"quantization {method!r} cannot be sized; known: {', '.join(sorted(_READERS))}")
    return _READERS[method](given)


def section(config: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """What ``config.json`` says of its weights' quantisation; None where they have none.

    Raises:
        ShapeError: it is no object.
    """
    given = config.get("quantization_config") or config.get("compression_config")
    if not given:
        return None
    if not isinstance(given, Mapping):
        raise ShapeError(f"config.json: quantization_config is {given!r}, an object is needed")
    return given


def _fp8(given: Mapping[str, Any]) -> Quantization:
    """An fp32 scale for each block of e.g. 128 × 128 (DeepSeek, Qwen3-FP8), else for each row.

    Where the file has one scale for the whole matrix, each row is given a copy.
    """
    block = given.get("weight_block_size")
    rows, columns = (1, None) if block is None else _block(block)
    left_out = _strings(given, "modules_to_not_convert", "ignored_layers")
    return Quantization("fp8", 8, rows, columns, 32, left_out=left_out)


def _awq(given: Mapping[str, Any]) -> Quantization:
    """A scale and a zero point of the weights' width for each group of a row."""
    bits = _bits(given, "bits", "w_bit")
    return Quantization(
        "awq",
        bits,
        columns=_group(given, "group_size", "q_group_size"),
        zero_bits=bits if given.get("zero_point", True) else 0,
        left_out=_strings(given, "modules_to_not_convert"),
    )


def _gptq(given: Mapping[str, Any]) -> Quantization:
    """As AWQ; zero points are stored for symmetric weights too. ``g_idx``, an int32 for each input channel, counts only
    where groups do not follow each other (``desc_act``)."""
    bits = _bits(given, "bits")
    skipped = tuple(f"re:{rule[2:]}" for rule in given.get("dynamic") or () if str(rule).startswith("-:"))
    inside = given.get("modules_in_block_to_quantize") or ()
    return Quantization(
        "gptq",
        bits,
        columns=_group(given, "group_size"),
        zero_bits=bits,
        column_bits=32 if given.get("desc_act") else 0,
        left_out=_strings(given, "modules_to_not_convert") + skipped,
        only=tuple(str(name) for names in inside for name in ([names] if isinstance(names, str) else names)),
        head=bool(given.get("lm_head")),
    )


def _bitsandbytes(given: Mapping[str, Any]) -> Quantization:
    left_out = _strings(given, "llm_int8_skip_modules")
    if given.get("load_in_8bit"):
        return Quantization("bitsandbytes", 8, scale_bits=32, left_out=left_out)
    if not given.get("load_in_4bit"):
        raise ShapeError("quantization_config of bitsandbytes has neither load_in_4bit nor load_in_8bit")
    nested = bool(given.get("bnb_4bit_use_double_quant"))
    scale = 8 + 32 / _BNB_NESTED if nested else 32
    return Quantization("bitsandbytes", 4, 1, _BNB_BLOCK, scale, left_out=left_out)


def _compressed_tensors(given: Mapping[str, Any]) -> Quantization:
    """int4, int8 and fp8 of llm-compressor, its scales of the model's type."""
    groups = given.get("config_groups")
    scheme = next(iter(groups.values()), None) if isinstance(groups, Mapping) else None
    weights = scheme.get("weights") if isinstance(scheme, Mapping) else None
    if not isinstance(weights, Mapping):
        raise ShapeError("quantization_config of compressed-tensors has no config_groups with weights")
    bits = _bits(weights, "num_bits")
    rows, columns = _scaled_together(weights)
    left_out = _strings(given, "ignore")
    return Quantization(
        "compressed-tensors",
        bits,
        rows,
        columns,
        zero_bits=0 if weights.get("symmetric", True) else bits,
        column_bits=32 if orders_columns(weights) else 0,
        left_out=left_out,
        head=True,
    )


def strategy(weights: Mapping[str, Any]) -> str:
    """Which weights share a scale in compressed-tensors: a ``tensor``, ``channel``, ``group`` or ``block`` of them."""
    size = weights.get("group_size")
    return str(
        weights.get("strategy") or ("tensor" if size is None else "channel" if size == -1 else "group")
    )


def orders_columns(weights: Mapping[str, Any]) -> bool:
    """Whether compressed-tensors' groups are scattered over the columns, an index saying where."""
    return weights.get("actorder") in (True, "group", "dynamic")


def _scaled_together(weights: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """[rows, columns] that share a scale; a scale of the whole matrix is held by each row."""
    match strategy(weights):
        case "tensor" | "channel":
            return 1, None
        case "group":
            return 1, _group(weights, "group_size")
        case "block":
            return _block(weights.get("block_structure") or (128, 128))
        case other:
            raise ShapeError(f"quantization_config of compressed-tensors: strategy {other!r} cannot be sized")


def _mxfp4(given: Mapping[str, Any]) -> Quantization:
    """gpt-oss: the experts only."""
    left_out = _strings(given, "modules_to_not_convert")
    return Quantization("mxfp4", 4, 1, _MXFP4_BLOCK, 8, left_out=left_out, only=("mlp.experts",))


_READERS: Mapping[str, Callable[[Mapping[str, Any]], Quantization]] = {
    "fp8": _fp8,
    "awq": _awq,
    "gptq": _gptq,
    "bitsandbytes": _bitsandbytes,
    "compressed-tensors": _compressed_tensors,
    "mxfp4": _mxfp4,
}


def _bits(given: Mapping[str, Any], *fields: str) -> int:
    value = next((given[field] for field in fields if given.get(field) is not None), None)
    if not isinstance(value, int) or value not in (2, 3, 4, 8):
        method = given.get("quant_method", "compressed-tensors")
        raise ShapeError(
            f"quantization_config of {method}: {fields[0]} is {value!r}, one of 2, 3, 4, 8 is needed"
        )
    return value


def _group(given: Mapping[str, Any], *fields: str) -> int | None:
    """Input channels that share a scale; -1 in the file means all of them."""
    value = next((given[field] for field in fields if given.get(field) is not None), 128)
    if value != -1 and not _whole(value):
        raise ShapeError(f"quantization_config: {fields[0]} is {value!r}, a whole number or -1 is needed")
    return None if value == -1 else int(value)


def _block(given: object) -> tuple[int, int]:
    """[rows, columns] that share a scale."""
    if not isinstance(given, list | tuple) or len(given) != 2 or not all(_whole(side) for side in given):
        raise ShapeError(f"quantization_config: the block {given!r} is not two whole numbers")
    return given[0], given[1]


def _strings(given: Mapping[str, Any], *fields: str) -> tuple[str, ...]:
    lists = [given.get(field) or () for field in fields]
    return tuple(str(entry) for names in lists if isinstance(names, list | tuple) for entry in names)


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _names(entry: str, module: str) -> bool:
    if entry.startswith("re:"):
        try:
            return re.match(entry[3:], module) is not None
        except re.error:
            return False
    if "*" in entry:
        return fnmatch.fnmatchcase(module, entry) or fnmatch.fnmatchcase(module, f"{entry}.*")
    return f".{entry}." in f".{module}."


def _groups(size: int, group: int | None) -> int:
    return 1 if group is None else -(-size // group)


def _ceil(value: float) -> int:
    return -int(-value // 1)
