"""The small files of a model folder that the engine reads. Never a hub: the folder is all there is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from llmservice_engine.core.errors import ModelNotFound, WeightsIncomplete


def read_config(folder: Path) -> Mapping[str, Any]:
    """The contents of ``config.json``.

    Raises:
        ModelNotFound: no such folder, or no model in it.
        WeightsIncomplete: the file is not a JSON object.
    """
    if not folder.is_dir():
        raise ModelNotFound(
            f"model folder {folder} does not exist",
            hint="give the path of a local folder with config.json and weights; model names are not downloaded",
        )
    if not (folder / "config.json").is_file():
        raise ModelNotFound(
            f"{folder} holds no config.json", hint="point --model at the folder with the model's files"
        )
    return read_json(folder / "config.json")


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
