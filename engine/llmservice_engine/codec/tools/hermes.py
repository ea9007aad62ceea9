"""Hermes and Qwen: ``<tool_call>{"name": "f", "arguments": {…}}</tool_call>``, anywhere, any number of times."""

from __future__ import annotations

from llmservice_engine.codec.reading import Machine, NotACall, Text, until
from llmservice_engine.codec.tools import json_call
from llmservice_engine.codec.tools.interface import ToolFormat

_OPEN, _CLOSE = "<tool_call>", "</tool_call>"


def _machine(text: Text, names: frozenset[str]) -> Machine:
    while True:
        yield from until(text, _OPEN)
        try:
            yield from json_call.call_object(text, json_call.any_name)
            if (yield from text.skip_spaces()) != _CLOSE[0]:
                raise NotACall
            yield from text.expect(_CLOSE[1:])
            text.held = ""
        except NotACall:
            text.release()


FORMAT = ToolFormat("hermes", _machine, markers=(_OPEN, _CLOSE))
