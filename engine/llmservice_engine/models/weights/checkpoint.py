"""Weights from safetensors or GGUF files into a decoder's tensors, one tensor at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from llmservice_engine.core.errors import ModelNotFound, UnsupportedArchitecture, WeightsIncomplete
from llmservice_engine.models import folder as model_folder
from llmservice_engine.models.weights import gguf

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
_NAMED = 5  # names that one message lists
# Of these one figure may stand for each row's, and sides of 1 come and go.
_ONE_FOR_ALL = ("_scale", "_zero_point")
# Types whose figures mean themselves; the last one, a power of 2, is of scales only.
_CONVERTED = {torch.float32, torch.bfloat16, torch.float16, torch.float64, torch.float8_e8m0fnu}


def load(
    model: Path,
    targets: Mapping[str, Tensor],
    unused: Callable[[str], bool],
    progress: Callable[[str], None],
    load_format: str = "auto",
) -> None:
    """Copy every tensor of the checkpoint into the target of its name, converting its type.

    The files are mapped, not read into memory, so that no second copy of the weights ever exists. Tensors whose
    name is ``unused`` are passed over, and biases of noughts, which some quantisers write everywhere.

    Raises:
        ModelNotFound: the folder holds no weights.
        WeightsIncomplete: files or tensors are missing, damaged or of another shape; the message names them.
        UnsupportedArchitecture: the checkpoint holds tensors that the decoder does not know, or of another type.
    """
    own = model_folder.gguf_file(model, load_format)
    files = [own] if own is not None else shards(model)
    left = dict(targets)
    unexpected: list[str] = []
    for number, file in enumerate(files, 1):
        progress(f"weights, file {number} of {len(files)}")
        for name, tensor in _tensors(file, targets):
            target = left.pop(name, None)
            if target is not None:
                _copy(name, file, target, tensor)
            elif not unused(name) and (not name.endswith(".bias") or tensor.any()):
                unexpected.append(name)
    if unexpected:
        lacking = f", and lacks {_listed(list(left))}" if left else ""
        raise UnsupportedArchitecture(
            f"{model} holds tensors that this architecture does not have: {_listed(unexpected)}{lacking}",
            hint="check that config.json, its quantization_config too, belongs to these weights",
        )
    if left:
        raise WeightsIncomplete(
            f"{model} lacks {len(left)} of {len(targets)} tensors: {_listed(list(left))}",
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
        hint="copy the model's safetensors or GGUF files into the folder; other formats are not read",
    )


def randomise(targets: Mapping[str, Tensor], seed: int) -> None:
    """Small random weights, the same for the same seed; norms are 1, packed integers 0. For benchmarks."""
    generator = torch.Generator().manual_seed(seed)
    for name, target in targets.items():
        if name.endswith("norm.weight"):
            target.fill_(1)
        elif target.dim() == 1 or not target.is_floating_point():
            target.zero_()
        else:
            target.copy_(torch.empty(target.shape).normal_(0, 0.02, generator=generator))


def _tensors(file: Path, wanted: Iterable[str]) -> Iterator[tuple[str, Tensor]]:
    if file.suffix == model_folder.GGUF:
        yield from gguf.tensors(file, wanted)
        return
    try:
        with safe_open(file, framework="pt") as opened:
            for name in opened.keys():  # noqa: SIM118 (not a mapping)
                yield name, opened.get_tensor(name)
    except (SafetensorError, OSError) as error:
        raise WeightsIncomplete(
            f"{file} is damaged or cannot be read: {error}", hint="copy the file again"
        ) from None


def _copy(name: str, file: Path, target: Tensor, tensor: Tensor) -> None:
    if name.endswith(_ONE_FOR_ALL):
        if tensor.numel() == 1:
            tensor = tensor.reshape(()).expand(target.shape)
        elif tensor.squeeze().shape == target.squeeze().shape:
            tensor = tensor.reshape(target.shape)
    if tensor.shape != target.shape:
        raise WeightsIncomplete(
            f"{name} in {file} has shape {list(tensor.shape)}, the configuration asks for {list(target.shape)}",
            hint="check that config.json belongs to these weights",
        )
    if tensor.dtype is not target.dtype and not {tensor.dtype, target.dtype} <= _CONVERTED:
        raise UnsupportedArchitecture(
            f"{name} in {file} is of type {_type(tensor)}, {_type(target)} is needed",
            hint="quantization_config in config.json has to say how these weights are quantised",
        )
    target.copy_(tensor)


def _type(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
