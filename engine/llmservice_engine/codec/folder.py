"""The small JSON files of a model folder that matter to text: special tokens, end tokens, defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import tokenizers

from llmservice_engine.codec import gguf
from llmservice_engine.core.errors import InvalidSettings, WeightsIncomplete
from llmservice_engine.models import folder as model_folder

TOKENIZER_FILE = "tokenizer.json"


@dataclass(frozen=True, slots=True)
class SamplingDefaults:
    """What ``generation_config.json`` asks for where a request says nothing. None: the API's own default."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None


@dataclass(frozen=True, slots=True)
class ModelFolder:
    path: Path
    config: Mapping[str, Any]
    generation: Mapping[str, Any]
    tokenizer: Mapping[str, Any]  # tokenizer_config.json, special_tokens_map.json underneath
    backend: tokenizers.Tokenizer | None = None  # where there is no tokenizer.json

    def special_tokens(self) -> dict[str, str]:
        """``bos_token`` and its like, as chat templates know them."""
        named = ((k, v.get("content") if isinstance(v, dict) else v) for k, v in self.tokenizer.items())
        return {key: text for key, text in named if key.endswith("_token") and isinstance(text, str)}

    def end_ids(self) -> frozenset[int]:
        return model_folder.eos_token_ids(self.config, self.generation)


def sampling_defaults(
    files: ModelFolder, setting: str = "auto", override: Mapping[str, Any] | None = None
) -> SamplingDefaults:
    """What counts where a request says nothing. ``setting``: auto, vllm or another folder, as --generation-config.

    Raises:
        InvalidSettings: the folder has no such file, or a value is no number.
    """
    found = dict(files.generation if setting == "auto" else {})
    if setting not in ("auto", "vllm"):
        file = Path(setting) / "generation_config.json"
        if not file.is_file():
            raise InvalidSettings(
                f"--generation-config {setting!r}: there is no {file}",
                hint="auto takes the model's own defaults, vllm none",
            )
        found = model_folder.read_json(file)
    found |= override or {}
    known = {one.name: found.get(one.name) for one in fields(SamplingDefaults)}
    for name, value in known.items():
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise InvalidSettings(
                f"the sampling default {name} is {value!r}, which is no number",
                hint=f"""--override-generation-config '{{"{name}": null}}' ignores it""",
            )
    return SamplingDefaults(**known)


def read(path: Path) -> ModelFolder:
    """Read a model folder.

    Raises:
        ModelNotFound: no such folder, or no model in it.
        UnsupportedArchitecture: a GGUF file's tokenizer is of a kind that is not known.
        WeightsIncomplete: a file that text needs is missing or not JSON; the message names it.
    """
    config = model_folder.read_config(path)
    home = model_folder.home(path)
    own = model_folder.read_optional(home / "special_tokens_map.json")
    own |= model_folder.read_optional(home / "tokenizer_config.json")
    backend = None
    if not (home / TOKENIZER_FILE).is_file():
        file = model_folder.gguf_file(path)
        if file is None:
            raise WeightsIncomplete(
                f"{path} holds no {TOKENIZER_FILE}",
                hint="copy the tokenizer's files too, or write them with AutoTokenizer's save_pretrained",
            )
        backend, own = gguf.read(file)
    return ModelFolder(
        path=home,
        config=config,
        generation=model_folder.read_optional(home / "generation_config.json"),
        tokenizer=own,
        backend=backend,
    )
