"""Weights from safetensors files into a decoder's tensors, one tensor at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from llmservice_engine.core.errors import ModelNotFound, UnsupportedArchitecture, WeightsIncomplete
from llmservice_engine.models import folder as model_folder

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
_NAMED = 5  # names that one message lists


def load(
    folder: Path,
    targets: Mapping[str, Tensor],
    unused: Callable[[str], bool],
    progress: Callable[[str], None],
) -> None:
    """Copy every tensor of the checkpoint into the target of its name, converting its type.

    The files are mapped, not read into memory, so that no second copy of the weights ever exists. Tensors whose
    name is ``unused`` are passed over.

    Raises:
        ModelNotFound: the folder holds no safetensors file.
        WeightsIncomplete: files or tensors are missing, damaged or of another shape; the message names them.
        UnsupportedArchitecture: the checkpoint holds tensors that the decoder does not know.
    """
    files = shards(folder)
    left = dict(targets)
    unexpected: list[str] = []
    for number, file in enumerate(files, 1):
        progress(f"weights, file {number} of {len(files)}")
        for name, tensor in _tensors(file):
            if unused(name):
                continue
            target = left.pop(name, None)
            if target is None:
                unexpected.append(name)
            else:
                _copy(name, file, target, tensor)
    if unexpected:
        raise UnsupportedArchitecture(
            f"{folder} holds tensors that this architecture does not have: {_listed(unexpected)}",
            hint="check that config.json belongs to these weights",
        )
    if left:
        raise WeightsIncomplete(
            f"{folder} lacks {len(left)} of {len(targets)} tensors: {_listed(list(left))}",
            hint="copy the model's files again",
            figures={"missingTensors": len(left)},
        )


def shards(folder: Path) -> Sequence[Path]:
    """The checkpoint's files: those that the index names, else the single one.

    Raises:
        ModelNotFound: there is neither.
        WeightsIncomplete: the index names files that are not there.
    """
    if (folder / INDEX).is_file():
        index = model_folder.read_json(folder / INDEX).get("weight_map")
        if not isinstance(index, dict) or not index:
            raise WeightsIncomplete(f"{folder / INDEX} has no weight_map", hint="copy the file again")
        names = sorted({str(file) for file in index.values()})
        missing = [name for name in names if not (folder / name).is_file()]
        if missing:
            raise WeightsIncomplete(
                f"{folder} lacks {len(missing)} of {len(names)} weight files: {_listed(missing)}",
                hint="copy the missing files into the folder",
                figures={"missingFiles": len(missing)},
            )
        return [folder / name for name in names]
    if (folder / SINGLE).is_file():
        return [folder / SINGLE]
    raise ModelNotFound(
        f"{folder} holds no weights: neither {SINGLE} nor {INDEX}",
        hint="copy the model's safetensors files into the folder; other formats are not read",
    )


def randomise(targets: Mapping[str, Tensor], seed: int) -> None:
    """Small random weights, the same for the same seed; norms are 1. For benchmarks."""
    generator = torch.Generator().manual_seed(seed)
    for name, target in targets.items():
        if name.endswith("norm.weight"):
            target.fill_(1)
        elif target.dim() == 1:
            target.zero_()
        else:
            target.copy_(torch.empty(target.shape).normal_(0, 0.02, generator=generator))


def _tensors(file: Path) -> Iterator[tuple[str, Tensor]]:
    try:
        with safe_open(file, framework="pt") as opened:
            for name in opened.keys():  # noqa: SIM118 (not a mapping)
                yield name, opened.get_tensor(name)
    except (SafetensorError, OSError) as error:
        raise WeightsIncomplete(
            f"{file} is damaged or cannot be read: {error}", hint="copy the file again"
        ) from None


def _copy(name: str, file: Path, target: Tensor, tensor: Tensor) -> None:
    if tensor.shape != target.shape:
        raise WeightsIncomplete(
            f"{name} in {file} has shape {list(tensor.shape)}, config.json asks for {list(target.shape)}",
            hint="check that config.json belongs to these weights",
        )
    if not tensor.is_floating_point():
        raise UnsupportedArchitecture(
            f"{name} in {file} is of type {str(tensor.dtype).removeprefix('torch.')}: quantized weights are not served",
            hint="use a checkpoint in bfloat16, float16 or float32",
        )
    target.copy_(tensor)


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
