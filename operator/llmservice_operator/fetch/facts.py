"""What a model is: its revision, size and shape, from its origin or from a claim that holds it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from llmservice_operator.api.copies import Facts
from llmservice_operator.fetch import selection, shape, shards
from llmservice_operator.fetch.errors import ModelNotFound, NoWeights, PermissionDenied, WeightsIncomplete
from llmservice_operator.fetch.origin import Listing, Origin
from llmservice_operator.fetch.source import ClaimSource

_CONFIG = "config.json"
# What stands in for config.json: Mistral's own format, or the header of a GGUF file.
_SELF_DESCRIBING = ("params.json", ".gguf")
_DTYPES = {"BF16": "bfloat16", "F16": "float16", "F32": "float32", "F64": "float64"}
_SMALL = 16 << 20  # bytes; an index of the largest models has some 10 MB


def of_origin(origin: Origin, listing: Listing) -> Facts:
    """One file is read even where none says the shape: only so is it known that the weights may be read at all.

    Raises:
        FetchError: the origin refuses, or this is no model.
    """
    everything = {file.path: file for file in (*listing.files, *listing.others)}
    check_weights(origin.name, [file.path for file in listing.files], everything)
    config: dict[str, Any] = {}
    if _CONFIG in everything:
        config = _parse(origin.read(listing, everything[_CONFIG]), origin.name)
    else:
        _describes_itself(everything, origin.name)
        smallest = min(listing.files, key=lambda file: file.size)
        with origin.stream(listing, smallest, 0):
            pass
    index = everything.get(selection.INDEX)
    if index and index in listing.files and index.size <= _SMALL:
        shards.missing(
            shards.shards_of(origin.read(listing, index), origin.name),
            [file.path for file in listing.files],
            origin.name,
        )
    return Facts(
        revision=listing.revision,
        bytes=listing.bytes,
        files=len(listing.files),
        weight_bytes=sum(file.size for file in listing.files if selection.is_weight(file.path)),
        parameters=listing.parameters,
        dtype=_dtype(listing.dtype, config),
        context_length=shape.context_length(config),
        config=shape.fields(config),
    )


def of_claim(source: ClaimSource, volume: Path) -> Facts:
    """Of a folder that holds a model already.

    Raises:
        FetchError: it does not, or may not be read.
    """
    folder = volume / source.path
    where = source.path or "the claim's root"
    try:
        names = sorted(path.name for path in folder.iterdir())
        if not folder.is_dir():
            raise NotADirectoryError
        files = {path.name: path.stat().st_size for path in folder.iterdir() if path.is_file()}
        if _CONFIG not in files:
            _describes_itself(names, where)
        config = _parse((folder / _CONFIG).read_bytes(), where) if _CONFIG in files else {}
        parameters = shards.check(folder, where)
    except (FileNotFoundError, NotADirectoryError):
        held = ", ".join(sorted(path.name for path in volume.iterdir())[:8]) if volume.is_dir() else ""
        raise ModelNotFound(
            f"the claim has no folder {where}; it holds: {held or 'nothing'}",
            hint="check spec.model.source.pvc.path: it is relative to the claim's root",
        ) from None
    except OSError as error:
        raise PermissionDenied(
            f"{error.filename or where} may not be read by user {os.geteuid()}: {error.strerror}",
            hint="make the files readable for others, or set fsGroup in template.spec.securityContext",
        ) from None
    chosen = selection.choose(files)
    check_weights(where, chosen or files, files)
    return Facts(
        revision="",
        bytes=sum(files[name] for name in chosen),
        files=len(chosen),
        weight_bytes=sum(files[name] for name in chosen if selection.is_weight(name)),
        parameters=sum(parameters.values()) or None,
        dtype=_dtype(max(parameters, key=lambda name: parameters[name], default=None), config),
        context_length=shape.context_length(config),
        config=shape.fields(config),
    )


def check_weights(name: str, chosen: Iterable[str], everything: Iterable[str]) -> None:
    """Raise :class:`NoWeights` where nothing of what would be copied is a weight file."""
    if any(selection.is_weight(path) for path in chosen):
        return
    others = sorted(path for path in everything if selection.is_weight(path))
    if others:
        raise NoWeights(
            f"{name} has weights only in a form that is not chosen by itself: {', '.join(others[:4])}",
            hint="name the files that are wanted in spec.model.source.hf.files",
        )
    held = ", ".join(sorted(everything)[:6])
    raise NoWeights(f"{name} has no weights; it holds: {held or 'nothing'}", hint="check the source's name")


def _describes_itself(names: Iterable[str], where: str) -> None:
    names = list(names)
    if not any(name.endswith(_SELF_DESCRIBING) for name in names):
        held = ", ".join(sorted(names)[:8]) or "nothing"
        raise ModelNotFound(
            f"{where} holds no {_CONFIG}, so it is no model; it holds: {held}",
            hint="check the source: it must name the model's own folder",
        )


def _parse(text: bytes, where: str) -> dict[str, Any]:
    try:
        config = json.loads(text)
    except ValueError as error:
        raise WeightsIncomplete(
            f"{where}/{_CONFIG} is damaged: {error}", hint="copy this file again"
        ) from None
    return config if isinstance(config, dict) else {}


def _dtype(tensors: str | None, config: dict[str, Any]) -> str | None:
    if tensors:
        return _DTYPES.get(tensors, tensors.lower())
    return shape.dtype(config)
