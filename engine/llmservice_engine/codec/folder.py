"""The small JSON files of a model folder that matter to text: special tokens, end tokens, defaults."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llmservice_engine.core.errors import ModelNotFound, WeightsIncomplete

TOKENIZER_FILE = "tokenizer.json"


@dataclass(frozen=True, slots=True)
class SamplingDefaults:
    """What ``generation_config.json`` asks for where a request says nothing. None: the API's own default."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None


@dataclass(frozen=True, slots=True)
class ModelFolder:
    path: Path
    config: Mapping[str, Any]
    generation: Mapping[str, Any]
    tokenizer: Mapping[str, Any]  # tokenizer_config.json, special_tokens_map.json underneath

    def special_tokens(self) -> dict[str, str]:
        """``bos_token`` and its like, as chat templates know them."""
        named = ((k, v.get("content") if isinstance(v, dict) else v) for k, v in self.tokenizer.items())
        return {key: text for key, text in named if key.endswith("_token") and isinstance(text, str)}

    def end_ids(self) -> Iterator[int]:
        """Every id that ``config.json`` or ``generation_config.json`` calls the end. Each may hold one or a list."""
        for source in (self.config, self.generation):
            found = source.get("eos_token_id")
            yield from (found if isinstance(found, list) else [] if found is None else [found])

    def sampling_defaults(self) -> SamplingDefaults:
        return SamplingDefaults(
            temperature=self.generation.get("temperature"),
            top_p=self.generation.get("top_p"),
            top_k=self.generation.get("top_k"),
        )


def read(path: Path) -> ModelFolder:
    """Read a model folder.

    Raises:
        ModelNotFound: no such folder, or no model in it.
        WeightsIncomplete: a file that text needs is missing or not JSON; the message names it.
    """
    if not path.is_dir():
        raise ModelNotFound(
            f"model folder {path} does not exist",
            hint="give the path of a folder with config.json and weights",
        )
    if not (path / "config.json").is_file():
        raise ModelNotFound(
            f"{path} holds no config.json", hint="point --model at the folder with the model's files"
        )
    if not (path / TOKENIZER_FILE).is_file():
        raise WeightsIncomplete(
            f"{path} holds no {TOKENIZER_FILE}",
            hint="copy the tokenizer's files too, or write them with AutoTokenizer's save_pretrained",
        )
    return ModelFolder(
        path=path,
        config=_read_json(path / "config.json"),
        generation=_read_json(path / "generation_config.json"),
        tokenizer=_read_json(path / "special_tokens_map.json") | _read_json(path / "tokenizer_config.json"),
    )


def _read_json(file: Path) -> dict[str, Any]:
    """The object in ``file``; empty where there is no such file."""
    if not file.is_file():
        return {}
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise WeightsIncomplete(f"{file} is not JSON: {error}", hint="copy the file again") from None
    if not isinstance(found, dict):
        raise WeightsIncomplete(f"{file} holds no JSON object", hint="copy the file again")
    return found
