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
    """How the matrices of linear layers are stored. Embeddings, head, norms, routers and biases are not."""

    method: str
    bits: int  # of one weight
    rows: int | None = 1  # output channels that share a scale; None: all of them
    columns: int | None = None  # input channels that share a scale; None: all of them
    scale_bits: float = 0  # of one such group: its scale and its zero point
    column_bits: int = 0  # for every input channel of a matrix: GPTQ's g_idx
    left_out: tuple[
        str, ...
    ] = ()  # modules that stay as they are: names, parts of names, or ``re:`` patterns
    only: str = ""  # where not empty: only modules whose name begins so

    def matrix_bytes(self, rows: int, columns: int) -> int:
        """Bytes of a matrix [rows, columns], scales and zero points included."""
        groups = _groups(rows, self.rows) * _groups(columns, self.columns)
        return _ceil((rows * columns * self.bits + groups * self.scale_bits + columns * self.column_bits) / 8)

    def leaves_out(self, module: str) -> bool:
        """Whether ``module``, a full name such as ``model.layers.0.mlp.gate``, stays unquantised."""
        if self.only and f".{self.only}" not in module:
            return True
        return any(_names(entry, module) for entry in self.left_out)


def from_config(config: Mapping[str, Any]) -> Quantization | None:
    """The model's quantisation, or None where it has none.

    Raises:
        ShapeError: a method that cannot be sized, or one without its figures.
    """
    given = config.get("quantization_config") or config.get("compression_config")
    if not given:
        return None
    if not isinstance(given, Mapping):
        raise ShapeError(f"config.json: quantization_config is {given!r}, an object is needed")
    method = str(given.get("quant_method", "unknown"))
    if method not in _READERS:
        raise ShapeError(f"quantization {method!r} cannot be sized; known: {', '.join(sorted(_READERS))}")
    return _READERS[method](given)


def _fp8(given: Mapping[str, Any]) -> Quantization:
    """One fp32 scale a matrix, or one for each block of e.g. 128 × 128 (DeepSeek, Qwen3-FP8)."""
    rows, columns = _block(given.get("weight_block_size"))
    left_out = _strings(given, "modules_to_not_convert", "ignored_layers")
    return Quantization("fp8", 8, rows, columns, 32, left_out=left_out)


def _awq(given: Mapping[str, Any]) -> Quantization:
    """A fp16 scale and a zero point of the weights' width for each group of a row."""
    bits = _bits(given, "bits", "w_bit")
    zero = bits if given.get("zero_point", True) else 0
    left_out = _strings(given, "modules_to_not_convert")
    return Quantization(
        "awq", bits, 1, _group(given, "group_size", "q_group_size"), 16 + zero, left_out=left_out
    )


def _gptq(given: Mapping[str, Any]) -> Quantization:
    """As AWQ; zero points are stored for symmetric weights too, and ``g_idx`` is an int32 for each input channel."""
    bits = _bits(given, "bits")
    return Quantization("gptq", bits, 1, _group(given, "group_size"), 16 + bits, column_bits=32)


def _bitsandbytes(given: Mapping[str, Any]) -> Quantization:
    left_out = _strings(given, "llm_int8_skip_modules")
    if given.get("load_in_8bit"):
        return Quantization("bitsandbytes", 8, 1, None, 32, left_out=left_out)
    if not given.get("load_in_4bit"):
        raise ShapeError("quantization_config of bitsandbytes has neither load_in_4bit nor load_in_8bit")
    nested = bool(given.get("bnb_4bit_use_double_quant"))
    scale = 8 + 32 / _BNB_NESTED if nested else 32
    return Quantization("bitsandbytes", 4, 1, _BNB_BLOCK, scale, left_out=left_out)


def _compressed_tensors(given: Mapping[str, Any]) -> Quantization:
    """int4, int8 and fp8 of llm-compressor. Scales are of the model's type: 16 bits here."""
    groups = given.get("config_groups")
    scheme = next(iter(groups.values()), None) if isinstance(groups, Mapping) else None
    weights = scheme.get("weights") if isinstance(scheme, Mapping) else None
    if not isinstance(weights, Mapping):
        raise ShapeError("quantization_config of compressed-tensors has no config_groups with weights")
    bits = _bits(weights, "num_bits")
    zero = 0 if weights.get("symmetric", True) else bits
    left_out = _strings(given, "ignore")
    strategy = str(weights.get("strategy") or ("group" if weights.get("group_size") else "tensor"))
    if strategy == "block":
        rows, columns = _block(weights.get("block_structure") or (128, 128))
        return Quantization("compressed-tensors", bits, rows, columns, 16 + zero, left_out=left_out)
    if strategy not in ("tensor", "channel", "group"):
        raise ShapeError(f"quantization_config of compressed-tensors: strategy {strategy!r} cannot be sized")
    rows_ = None if strategy == "tensor" else 1
    columns_ = _group(weights, "group_size") if strategy == "group" else None
    return Quantization("compressed-tensors", bits, rows_, columns_, 16 + zero, left_out=left_out)


def _mxfp4(given: Mapping[str, Any]) -> Quantization:
    """gpt-oss: the experts only."""
    left_out = _strings(given, "modules_to_not_convert")
    return Quantization("mxfp4", 4, 1, _MXFP4_BLOCK, 8, left_out=left_out, only="mlp.experts")


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


def _block(given: object) -> tuple[int | None, int | None]:
    """[rows, columns] that share a scale; None: one scale for the matrix."""
    if given is None:
        return None, None
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
