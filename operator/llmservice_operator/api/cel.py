"""Validation rules in CEL, which the API server runs: they hold with no webhook."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

VALIDATIONS = "x-kubernetes-validations"
Reason = Literal["FieldValueInvalid", "FieldValueForbidden", "FieldValueRequired", "FieldValueDuplicate"]


def rule(
    expression: str, message: str, reason: Reason = "FieldValueInvalid", path: str = ""
) -> dict[str, str]:
    """One rule. ``path`` is the child field that the refusal names; the rule's own place where it is empty."""
    made = {"rule": expression, "message": message, "reason": reason}
    return made | {"fieldPath": path} if path else made


def rules(*given: Mapping[str, str]) -> dict[str, Any]:
    """``json_schema_extra`` of a type or a field."""
    return {VALIDATIONS: [dict(one) for one in given]}


def exactly_one(fields: tuple[str, ...]) -> dict[str, str]:
    """Exactly one of ``fields`` is set."""
    given = ", ".join(f"has(self.{field})" for field in fields)
    return rule(
        f"[{given}].filter(given, given).size() == 1",
        f"exactly one source is needed: {', '.join(fields)}",
        "FieldValueRequired",
    )
