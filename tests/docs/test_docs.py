"""What the pages say is so: links lead somewhere, targets exist, manifests are valid."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from llmservice_operator.api import spec

ROOT = Path(__file__).resolve().parent.parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))


def snippets(language: str) -> list[tuple[str, str]]:
    found = []
    for page in PAGES:
        blocks = re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.M | re.S)
        found += [(f"{page.name}-{number}", block) for number, block in enumerate(blocks)]
    return found


def as_stored(body: dict[str, Any]) -> dict[str, Any]:
    """With what the API server adds to a manifest."""
    metadata = {"namespace": "default", "uid": "1", "generation": 1, **body["metadata"]}
    return {**body, "metadata": metadata}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_to_a_file_leads_to_one(page: Path) -> None:
    for link in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
        if "://" not in link:
            assert (page.parent / link).exists(), f"{page.name} links to {link}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_make_target_that_a_page_names_exists(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+(?: [a-z0-9-]+)*):", (ROOT / "Makefile").read_text(), re.M))
    known = {word for line in targets for word in line.split()}
    for target in re.findall(r"`make ([a-z-]+)", page.read_text()):
        assert target in known, f"{page.name} names `make {target}`"


@pytest.mark.parametrize(("name", "text"), snippets("yaml"))
def test_every_manifest_in_the_pages_is_valid(name: str, text: str) -> None:
    for body in yaml.safe_load_all(text):
        if body.get("kind") == "LLMService":
            spec.parse(as_stored(body))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_every_example_is_valid(example: Path) -> None:
    for body in yaml.safe_load_all(example.read_text()):
        if body["kind"] == "LLMService":
            spec.parse(as_stored(body))


def test_nothing_shadows_the_standard_librarys_operator_module() -> None:
    assert not (ROOT / "operator" / "__init__.py").exists()
    assert not (ROOT / "tests" / "operator" / "__init__.py").exists()
