"""The small files of a model folder that the engine reads. Never a hub: the folder is all there is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from llmservice_engine.core.errors import InvalidSettings, ModelNotFound, WeightsIncomplete
from llmservice_engine.models import gguf

GGUF = ".gguf"


def read_config(model: Path) -> Mapping[str, Any]:
    """The contents of ``config.json``; without it what a GGUF file says of itself.

    Raises:
        ModelNotFound: no such folder or file, or no model in it.
        WeightsIncomplete: the file is not a JSON object, or a damaged GGUF file.
        UnsupportedArchitecture: a GGUF file holds a model of another kind.
    """
    if not model.exists():
        raise ModelNotFound(
            f"model folder {model} does not exist",
            hint="give the path of a local folder with config.json and weights; model names are not downloaded",
        )
    file = home(model) / "config.json"
    found = gguf_file(model)
    given = read_json(file) if file.is_file() else {}
    if (
        found is not None and "architectures" not in given
    ):  # beside GGUF files often stands no more than a stub
        return gguf.config(found)
    if not file.is_file():
        raise ModelNotFound(
            f"{model} holds no config.json", hint="point --model at the folder with the model's files"
        )
    return given


def home(model: Path) -> Path:
    """The folder with the small files: the model's own, or that in which a GGUF file lies."""
    return model.parent if model.suffix == GGUF else model


def gguf_file(model: Path, load_format: str = "auto") -> Path | None:
    """The GGUF file with the model's weights: ``model`` itself, or the only one in it; None: there is none.

    ``auto``: none where the folder holds safetensors.

    Raises:
        ModelNotFound: the folder holds several, or none although ``load_format`` says ``gguf``.
        InvalidSettings: ``model`` is such a file although ``load_format`` says ``safetensors``.
    """
    if model.suffix == GGUF:
        if load_format == "safetensors":
            raise InvalidSettings(f"--load-format safetensors: {model} is a GGUF file", hint="leave it out")
        return model
    if load_format == "safetensors" or (load_format != "gguf" and any(model.glob("*.safetensors*"))):
        return None
    files = sorted(model.glob(f"*{GGUF}"))
    if len(files) > 1:
        listed = ", ".join(file.name for file in files)
        raise ModelNotFound(
            f"{model} holds {len(files)} GGUF files: {listed}", hint="point --model at one of them"
        )
    if load_format == "gguf" and not files:
        raise ModelNotFound(f"{model} holds no GGUF file", hint="leave --load-format out")
    return files[0] if files else None


def eos_token_ids(*sources: Mapping[str, Any]) -> frozenset[int]:
    """Every token that ``config.json`` or ``generation_config.json`` calls the end; each may hold one or a list."""
    ids: set[int] = set()
    for source in sources:
        found = source.get("eos_token_id")
        ids.update(found if isinstance(found, list) else [] if found is None else [found])
    return frozenset(ids)


def read_optional(file: Path) -> dict[str, Any]:
    """As :func:`read_json`; empty where there is no such file."""
    return read_json(file) if file.is_file() else {}


def read_json(file: Path) -> dict[str, Any]:
    """The object in ``file``.

    Raises:
        WeightsIncomplete: it is not a JSON object; the message names the file.
    """
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise WeightsIncomplete(f"{file} is not JSON: {error}", hint="copy the file again") from None
    if not isinstance(found, dict):
        raise WeightsIncomplete(f"{file} holds no JSON object", hint="copy the file again")
    return found
