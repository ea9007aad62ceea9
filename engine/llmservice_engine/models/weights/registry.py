"""Which ways of storing weights are served. One is added by a line of :data:`METHODS`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from llmservice_planner import quantization

from llmservice_engine.core.errors import InvalidSettings, UnsupportedArchitecture
from llmservice_engine.models.layers.linear import DenseMaker, Maker
from llmservice_engine.models.weights.awq import Awq
from llmservice_engine.models.weights.compressed_tensors import CompressedTensors
from llmservice_engine.models.weights.fp8 import Fp8
from llmservice_engine.models.weights.gptq import Gptq
from llmservice_engine.models.weights.interface import Method
from llmservice_engine.models.weights.linear import QuantizedMaker

METHODS: Mapping[str, Callable[[Mapping[str, Any]], Method]] = {
    "awq": Awq.configured,
    "compressed-tensors": CompressedTensors.configured,
    "fp8": Fp8.configured,
    "gptq": Gptq.configured,
}


def check(config: Mapping[str, Any], asked: str | None, *, gguf: bool) -> None:
    """Whether the checkpoint's weights can be read, and are what ``--quantization`` says (None: nothing).

    Raises:
        UnsupportedArchitecture: they are stored in a way that is not served.
        InvalidSettings: they are of another kind than asked for; the message names both.
    """
    given = quantization.section(config)
    found = "gguf" if gguf else None if given is None else str(given.get("quant_method", "unknown"))
    if found not in (None, "gguf", *METHODS):
        raise UnsupportedArchitecture(
            f"quantization_config: quant_method {found!r} is not served; served: {', '.join(METHODS)}",
            hint="use a checkpoint that is quantised so, or one that is not quantised",
        )
    if asked is not None and asked != found:
        what = "is not quantised, and weights are not quantised at load" if found is None else f"says {found}"
        raise InvalidSettings(
            f"--quantization {asked}: the checkpoint {what}",
            hint=f"leave --quantization out, or use a checkpoint in {asked}",
        )


def maker(config: Mapping[str, Any], dtype: torch.dtype, device: str) -> Maker:
    """Makes products whose weights are stored as ``config`` says, which :func:`check` has passed.

    Raises:
        UnsupportedArchitecture: a figure of its quantisation is not served; the message names it.
    """
    dense = DenseMaker(dtype, device)
    given, sized = quantization.section(config), quantization.from_config(config)
    if given is None or sized is None:
        return dense
    return QuantizedMaker(dense, METHODS[sized.method](given), sized)
