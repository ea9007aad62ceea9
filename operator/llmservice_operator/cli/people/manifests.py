"""Manifests from files, and an LLMService as the API server would store it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from llmservice_operator.api import names, spec
from llmservice_operator.api.errors import InvalidSpec
from llmservice_operator.api.spec import LLMService
from llmservice_operator.cli.people.answers import BadInput

Body = dict[str, Any]
NOT_STORED_YET = "00000000-0000-0000-0000-000000000000"  # the uid of an object that is in a file only


def read(*files: Path) -> list[Body]:
    """Every object of the files, in order; of a List, its items. ``-`` is standard input.

    Raises:
        BadInput: a file cannot be read, is not YAML, or holds something that is no Kubernetes object.
    """
    return [body for file in files for body in _objects(file)]


def _objects(file: Path) -> Iterator[Body]:
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
        documents = list(yaml.safe_load_all(text))
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{file} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    except yaml.YAMLError as error:
        raise BadInput(f"{file} is not YAML: {error}") from None
    for number, document in enumerate(documents, 1):
        if document is None:
            continue
        if not isinstance(document, dict) or not isinstance(document.get("kind"), str):
            raise BadInput(f"{file}, document {number}: no Kubernetes object (it has no kind)")
        if document["kind"].endswith("List") and isinstance(document.get("items"), list):
            yield from (item for item in document["items"] if isinstance(item, dict) and "kind" in item)
        else:
            yield document


def services(file: Path) -> list[Body]:
    """The file's LLMServices, at least one.

    Raises:
        BadInput: there is none.
    """
    bodies = read(file)
    found = [body for body in bodies if body["kind"] == names.KIND]
    if not found:
        kinds = ", ".join(dict.fromkeys(body["kind"] for body in bodies)) or "nothing"
        raise BadInput(f"{file} holds no {names.KIND}, but {kinds}")
    return found


def service(file: Path, name: str | None = None) -> Body:
    """The file's one LLMService, or the one of that name.

    Raises:
        BadInput: there is none, or several to choose from.
    """
    found = services(file)
    if name is not None:
        found = [body for body in found if name_of(body) == name]
        if not found:
            raise BadInput(f"{file} holds no {names.KIND} named {name}")
    if len(found) > 1:
        among = ", ".join(name_of(body) for body in found)
        raise BadInput(f"{file} holds {len(found)} of {names.KIND}: {among}; choose one with --name")
    return found[0]


def name_of(body: Mapping[str, Any]) -> str:
    metadata = body.get("metadata")
    return str(metadata.get("name", "")) if isinstance(metadata, Mapping) else ""


def stored(body: Mapping[str, Any], namespace: str | None = None) -> Body:
    """With what the API server adds; ``namespace``: what was asked for on the command line."""
    given = body.get("metadata")
    metadata = dict(given) if isinstance(given, Mapping) else {}
    if not metadata.get("name"):
        raise BadInput(f"the {names.KIND} has no metadata.name")
    metadata["namespace"] = namespace or metadata.get("namespace") or "default"
    metadata.setdefault("uid", NOT_STORED_YET)
    metadata.setdefault("generation", 1)
    return {**body, "metadata": metadata}


def parse(body: Mapping[str, Any], namespace: str | None = None) -> LLMService:
    """The object as the operator reads it.

    Raises:
        BadInput: the operator would refuse it; the field is named.
    """
    version = body.get("apiVersion")
    if version != names.API_VERSION:
        raise BadInput(f"apiVersion is {version!r}; it must be {names.API_VERSION}")
    if not isinstance(body.get("spec"), Mapping):
        raise BadInput(f"{name_of(body) or names.KIND} has no spec")
    try:
        return spec.parse(stored(body, namespace))
    except InvalidSpec as error:
        raise BadInput(str(error)) from None
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        raise BadInput(f"metadata.{problem['loc'][0]} {problem['input']!r}: {problem['msg']}") from None
