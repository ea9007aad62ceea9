"""Answers that a grammar holds to calls: what the grammar must allow, and how the answer is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from llmservice_engine.codec.reading import CallArguments, CallStart, Delta, Machine, NotACall, Text
from llmservice_engine.codec.tools import json_call

Schema = dict[str, Any]


def one_of(functions: Sequence[Mapping[str, Any]], *, several: bool) -> Schema:
    """The JSON schema of a list of calls of ``functions`` (OpenAI's function objects), at least one.

    Raises:
        ValueError: two functions define a part of their schemas under one name, but differently.
    """
    definitions: Schema = {}
    calls = []
    for function in functions:
        parameters = dict(function.get("parameters") or {"type": "object", "properties": {}})
        for name, definition in parameters.pop("$defs", {}).items():
            if definitions.setdefault(name, definition) != definition:
                raise ValueError(f"two tools define $defs/{name} differently: give one of them another name")
        calls.append(
            {
                "type": "object",
                "properties": {"name": {"const": function["name"]}, "parameters": parameters},
                "required": ["name", "parameters"],
                "additionalProperties": False,
            }
        )
    schema: Schema = {"type": "array", "minItems": 1, "items": {"anyOf": calls}}
    if not several:
        schema["maxItems"] = 1
    return schema | ({"$defs": definitions} if definitions else {})


def machine(text: Text) -> Machine:
    """Reads what :func:`one_of` allows."""
    try:
        if (yield from text.skip_spaces()) != "[":
            raise NotACall
        yield from json_call.call_array(text, json_call.any_name)
    except NotACall:
        text.release()


class Named:
    """Reads the arguments of the one function that was named: all of the answer."""

    def __init__(self, name: str) -> None:
        self._start: list[Delta] = [CallStart(0, name)]

    def push(self, text: str) -> list[Delta]:
        start, self._start = self._start, []
        return [*start, CallArguments(0, text)] if text else start

    def finish(self) -> list[Delta]:
        return self.push("")
