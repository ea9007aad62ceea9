"""What the installed CRD lacks is named by its path."""

from __future__ import annotations

from typing import Any

from llmservice_operator.api import crd
from llmservice_operator.live import schema

OURS = {
    "properties": {
        "spec": {
            "properties": {
                "old": {"type": "string"},
                "new": {"properties": {"field": {"type": "string"}}},
                "list": {"items": {"properties": {"key": {}, "added": {}}}},
                "free": {"x-kubernetes-preserve-unknown-fields": True},
            }
        }
    }
}


def test_each_missing_field_is_named_once_by_its_path() -> None:
    served: dict[str, Any] = {
        "properties": {"spec": {"properties": {"old": {}, "list": {"items": {"properties": {"key": {}}}}}}}
    }
    assert list(schema.missing(OURS, served)) == ["spec.new", "spec.list[].added", "spec.free"]


def test_a_schema_that_lets_unknown_fields_pass_lacks_none() -> None:
    served: dict[str, Any] = {"properties": {"spec": {"x-kubernetes-preserve-unknown-fields": True}}}
    assert list(schema.missing(OURS, served)) == []


def test_our_own_crd_lacks_nothing_of_itself() -> None:
    ours = crd.generate()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert list(schema.missing(ours, ours)) == []
    assert "spec.model" in list(schema.missing(ours, {"properties": {"spec": {}}}))
