"""The real model's folder, and odd copies of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from llmservice_engine.codec import folder
from llmservice_engine.codec.codec import Codec
from llmservice_engine.codec.tokenizer import Tokenizer

from e2e import model

MakeFolder = Callable[..., Path]


@pytest.fixture(scope="session")
def model_folder() -> Path:
    return model.ensure()


@pytest.fixture(scope="session")
def tokenizer(model_folder: Path) -> Tokenizer:
    return Tokenizer.load(folder.read(model_folder))


@pytest.fixture(scope="session")
def codec(model_folder: Path) -> Codec:
    return Codec.load(str(model_folder))


@pytest.fixture
def odd_folder(model_folder: Path, tmp_path: Path) -> MakeFolder:
    """The model's text files with changes: ``name={...}`` merges into a JSON file, ``name=None`` leaves it out."""

    def make(**changes: dict[str, Any] | None) -> Path:
        target = tmp_path / "model"
        target.mkdir()
        for name in ("config.json", "generation_config.json", "tokenizer_config.json", "tokenizer.json"):
            change = changes.get(name.removesuffix(".json"), {})
            if change is not None:
                content = json.loads((model_folder / name).read_text()) | change
                (target / name).write_text(json.dumps(content))
        if changes.get("chat_template", {}) is not None:
            (target / "chat_template.jinja").write_text((model_folder / "chat_template.jinja").read_text())
        return target

    return make
