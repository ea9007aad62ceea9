"""The generated CRD: up to date, structural, bounded, described."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
import yaml
from llmservice_operator.api import cel, crd

ROOT = Path(__file__).resolve().parents[3]
VERSION: dict[str, Any] = crd.generate()["spec"]["versions"][0]
OBJECT: dict[str, Any] = VERSION["schema"]["openAPIV3Schema"]
FREE = "x-kubernetes-preserve-unknown-fields"
NOT_IN_A_STRUCTURAL_SCHEMA = {"$ref", "$defs", "title", "const", "prefixItems", "oneOf", "allOf"}


def fields(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, schema
    for name, below in schema.get("properties", {}).items():
        yield from fields(below, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if key in schema:
            yield from fields(schema[key], f"{path}[]")


SPEC_FIELDS = dict(fields(OBJECT["properties"]["spec"], "spec"))
FIELDS = SPEC_FIELDS | dict(fields(OBJECT["properties"]["status"], "status"))


def test_files_in_the_tree_are_what_the_types_say() -> None:
    assert crd.stale(ROOT) == [], "run `python -m llmservice_operator.api.crd`"


@pytest.mark.parametrize("path", FIELDS)
def test_field_is_structural(path: str) -> None:
    schema = FIELDS[path]
    assert not NOT_IN_A_STRUCTURAL_SCHEMA & schema.keys()
    assert "type" in schema or schema.get("x-kubernetes-int-or-string")
    assert not isinstance(schema.get("exclusiveMinimum"), float | int) or schema["exclusiveMinimum"] is True


@pytest.mark.parametrize("path", [path for path in FIELDS if not path.endswith("]")])
def test_field_has_a_description(path: str) -> None:
    assert FIELDS[path].get("description")


@pytest.mark.parametrize("path", FIELDS)
def test_field_is_bounded(path: str) -> None:
    schema = FIELDS[path]
    match schema.get("type"):
        case "string":
            assert "maxLength" in schema or "enum" in schema or schema.get("format") == "date-time"
        case "array":
            assert "maxItems" in schema
        case "object" if "additionalProperties" in schema:
            assert "maxProperties" in schema
        case "object":
            assert "properties" in schema or schema.get(FREE)


@pytest.mark.parametrize(
    ("path", "rule"),
    [(path, rule) for path, schema in FIELDS.items() for rule in schema.get(cel.VALIDATIONS, ())],
)
def test_rule_has_a_reason_a_message_and_names_an_existing_field(path: str, rule: dict[str, str]) -> None:
    assert rule["message"]
    assert rule["reason"].startswith("FieldValue")
    assert path + rule.get("fieldPath", "") in FIELDS


def test_fields_that_do_not_work_yet_are_not_there() -> None:
    spec = OBJECT["properties"]["spec"]["properties"]
    assert "lanes" not in spec
    assert "kvCacheDtype" not in spec["engine"]["properties"]


def test_replicas_have_no_default() -> None:
    assert "default" not in OBJECT["properties"]["spec"]["properties"]["replicas"]


def test_status_begins_as_not_yet_observed() -> None:
    assert OBJECT["properties"]["status"]["default"] == {"observedGeneration": -1}


def test_scale_subresource_selects_our_pods() -> None:
    assert VERSION["subresources"]["scale"] == {
        "labelSelectorPath": ".status.selector",
        "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas",
    }


@pytest.mark.parametrize("example", sorted(ROOT.glob("examples/*.yaml")), ids=lambda path: path.name)
def test_example_is_valid(example: Path) -> None:
    for document in yaml.safe_load_all(example.read_text()):
        if document["kind"] == "LLMService":
            jsonschema.validate(document, strict(OBJECT))


def strict(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema as strict validation reads it: unknown fields are refused. CEL is left out."""
    made = dict(schema)
    if schema.get("exclusiveMinimum") is True:
        made["exclusiveMinimum"] = made.pop("minimum")
    if schema.get("x-kubernetes-int-or-string"):
        made.pop("pattern")
    if "properties" in schema:
        made["properties"] = {name: strict(below) for name, below in schema["properties"].items()}
        made["additionalProperties"] = False
        if "metadata" in schema["properties"] and "kind" in schema["properties"]:
            made["properties"]["metadata"] = {"type": "object"}
    if "items" in schema:
        made["items"] = strict(schema["items"])
    return made
