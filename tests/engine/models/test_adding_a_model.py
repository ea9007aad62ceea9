"""The guide's code is the file that it shows, and a family stays small."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest
from llmservice_engine.models import registry
from llmservice_engine.models.layers.traits import Traits

ROOT = Path(__file__).resolve().parents[3]
GUIDE = (ROOT / "docs" / "guides" / "adding-a-model.md").read_text()
SHOWN = re.findall(r"^<!-- (\S+) -->\n```python\n(.*?)^```", GUIDE, re.M | re.S)
FILES = {function.__module__.rpartition(".")[2] for function in registry.DECODERS.values()}


def test_the_guides_code_is_the_files() -> None:
    assert SHOWN
    for name, code in SHOWN:
        assert code == (ROOT / name).read_text(), f"copy {name} into the guide"


@pytest.mark.parametrize("name", sorted(FILES))
def test_a_family_is_a_file_of_fewer_than_100_lines(name: str) -> None:
    file = ROOT / "engine" / "llmservice_engine" / "models" / f"{name}.py"
    assert len(file.read_text().splitlines()) < 100


def test_every_trait_that_the_guide_names_exists_and_none_is_left_out() -> None:
    rows = re.findall(r"^\| (`.*) \| [^|]*\|$", GUIDE, re.M)
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    known = {field.name for field in dataclasses.fields(Traits)}
    assert named == known - {"epsilon"}
