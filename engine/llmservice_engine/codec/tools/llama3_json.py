"""Llama 3: the answer is ``{"name": "f", "parameters": {…}}``, several parted by ``;``; ``<|python_tag|>`` may lead."""

from __future__ import annotations

from llmservice_engine.codec.reading import Machine, NotACall, Text, until
from llmservice_engine.codec.tools import json_call
from llmservice_engine.codec.tools.interface import ToolFormat

_OPEN = "<|python_tag|>"


def _machine(text: Text, names: frozenset[str]) -> Machine:
    first = yield from text.skip_spaces()
    text.give_back()
    if first == "{":
        yield from _calls(text, names)
    while True:
        yield from until(text, _OPEN)
        yield from _calls(text, names)


def _calls(text: Text, names: frozenset[str]) -> Machine:
    try:
        while True:
            yield from json_call.call_object(text, names.__contains__)
            if (yield from text.skip_spaces()) not in (";", ","):
                text.give_back()
                raise NotACall
    except NotACall:
        text.release()


FORMAT = ToolFormat("llama3_json", _machine, markers=(_OPEN,))
