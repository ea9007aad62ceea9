"""Tensors of a GGUF file, by the names that safetensors have, dequantised as they are read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import gguf
import torch
from torch import Tensor

from llmservice_engine.core.errors import UnsupportedArchitecture, WeightsIncomplete
from llmservice_engine.models import gguf as metadata
from llmservice_engine.models.gguf import File

_EXPERT = re.compile(r"\.experts\.(\d+)\.")
_ARCHITECTURES = {name: number for number, name in gguf.MODEL_ARCH_NAMES.items()}


def tensors(path: Path, wanted: Iterable[str]) -> Iterator[tuple[str, Tensor]]:
    """Each tensor under its name among ``wanted``, in fp32; those that nobody wants under their own.

    Raises:
        WeightsIncomplete: the file is damaged.
        UnsupportedArchitecture: a tensor's type is not read; the message names both.
    """
    file = metadata.opened(path)
    names = _names(file, wanted)
    for name, stored in file.tensors.items():
        if name == metadata.ROPE_DIVISORS:  # part of the configuration
            continue
        found = names.get(name, [(name, None)])
        if found[0][1] is not None and len(found) != len(stored.data):
            raise WeightsIncomplete(
                f"{name} in {path} is of {len(stored.data)} experts, the configuration asks for {len(found)}",
                hint="check that config.json belongs to these weights",
            )
        for ours, expert in found:
            data = stored.data if expert is None else stored.data[expert]
            try:
                weight = torch.tensor(gguf.quants.dequantize(data, stored.tensor_type))
            except NotImplementedError:
                kind = stored.tensor_type.name
                raise UnsupportedArchitecture(
                    f"{name} in {path} is of type {kind}, which is not read",
                    hint="use a file in F16, BF16, Q8_0, Q6_K, Q5_K, Q4_K or Q4_0",
                ) from None
            yield ours, _unpermuted(file, name, weight)
    metadata.opened.cache_clear()  # nobody else will ask, and a large vocabulary is large


def _names(file: File, wanted: Iterable[str]) -> dict[str, list[tuple[str, int | None]]]:
    """The file's name of a tensor → our names of it, or of its experts, with their numbers."""
    table = gguf.get_tensor_name_map(_ARCHITECTURES[file.architecture], file.own("block_count"))
    found: dict[str, list[tuple[str, int | None]]] = {}
    for ours in wanted:
        expert = _EXPERT.search(ours)
        theirs = table.get_name(_EXPERT.sub(".experts.", ours), (".weight", ".bias"))
        found.setdefault(theirs or ours, []).append((ours, None if expert is None else int(expert[1])))
    return found


def _unpermuted(file: File, name: str, weight: Tensor) -> Tensor:
    """Llama's queries and keys as they were: llama.cpp turns neighbours, Hugging Face the two halves of a head."""
    part = re.search(r"attn_([qk])\.(weight|bias)$", name)
    if file.architecture != "llama" or part is None:
        return weight
    heads = file.own("attention.head_count")
    if part[1] == "k":
        heads = file.own("attention.head_count_kv", heads)
    if len(weight) % (2 * heads):
        raise WeightsIncomplete(
            f"{name} in {file.path} has {len(weight)} rows, which are no {heads} heads of even width",
            hint="copy the file again",
        )
    return weight.reshape(heads, -1, 2, *weight.shape[1:]).transpose(1, 2).reshape(weight.shape)
