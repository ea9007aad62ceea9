"""A pydantic type's JSON schema as the structural OpenAPI v3 schema that a CRD takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

_LEFT_OUT = frozenset({"title", "$defs"})


def structural(kind: type[BaseModel]) -> dict[str, Any]:
    """References inlined, ``X or null`` as ``X``, no titles, only defaults that say something."""
    schema = kind.model_json_schema(by_alias=True)
    return _converted(schema, schema.get("$defs", {}))


def _converted(schema: Mapping[str, Any], defs: Mapping[str, Any]) -> dict[str, Any]:
    flat = _flat(schema, defs)
    made: dict[str, Any] = {}
    for key, value in flat.items():
        if key in _LEFT_OUT or (key == "default" and value in (None, [], "")):
            continue
        match key:
            case "properties":
                made[key] = {name: _converted(field, defs) for name, field in value.items()}
            case "items":
                made[key] = _converted(value, defs)
            case "additionalProperties":
                if isinstance(value, Mapping):  # False is said by pruning, True by preserving
                    made[key] = _converted(value, defs)
            case "exclusiveMinimum" | "exclusiveMaximum":
                made[key.replace("exclusiveM", "m")] = value
                made[key] = True
            case "const":
                made["enum"] = [value]
            case _:
                made[key] = value
    return made


def _flat(schema: Mapping[str, Any], defs: Mapping[str, Any]) -> dict[str, Any]:
    """``schema`` with its reference, or its one alternative to null, merged in. Its own words go first."""
    own = dict(schema)
    if "$ref" in own:
        target = defs[own.pop("$ref").rpartition("/")[2]]
        return _flat({**target, **own}, defs)
    if own.get("x-kubernetes-int-or-string") or "anyOf" not in own:
        return own
    others = [one for one in own.pop("anyOf") if one.get("type") != "null"]
    if len(others) != 1:
        raise TypeError(f"a CRD has no field of several types: {others}")
    return _flat({**others[0], **own}, defs)
