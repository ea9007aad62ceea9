"""Mistral: ``[TOOL_CALLS][{"name": "f", "arguments": {…}}, …]``, newer models ``[TOOL_CALLS]f[ARGS]{…}``, repeated."""

from __future__ import annotations

import secrets
import string

from llmservice_engine.codec.reading import Machine, Next, NotACall, Text, until
from llmservice_engine.codec.tools import json_call
from llmservice_engine.codec.tools.interface import ToolFormat

_OPEN, _ID, _ARGS = "[TOOL_CALLS]", "[CALL_ID]", "[ARGS]"
_NAME = frozenset(string.ascii_letters + string.digits + "_-.:/")


def _machine(text: Text, names: frozenset[str]) -> Machine:
    while True:
        yield from until(text, _OPEN)
        try:
            if (yield from text.skip_spaces()) == "[":
                yield from json_call.call_array(text, json_call.any_name)
            else:
                text.give_back()
                yield from _named(text)
        except NotACall:
            text.release()


def _named(text: Text) -> Machine:
    name, after = yield from _word(text)
    if after == _ID[0]:
        after = yield from _marker(text)
        if after == _ID:
            yield from _word(text)
            after = yield from _marker(text)
        if after != _ARGS:
            raise NotACall
        after = yield from text.skip_spaces()
    if not name or after != "{":
        raise NotACall
    text.start_call(name)
    yield from json_call.object_arguments(text)


def _word(text: Text) -> Next[tuple[str, str]]:
    """A name or an id, and the character after it."""
    word = ""
    while (character := (yield from text.next())) in _NAME:
        word += character
    return word, character


def _marker(text: Text) -> Next[str]:
    """A marker whose ``[`` has been read."""
    read = "["
    while not read.endswith("]"):
        read += yield from text.next()
        if not any(marker.startswith(read) for marker in (_ID, _ARGS)):
            raise NotACall
    return read


def _new_id() -> str:
    """Nine letters or digits: the model's template takes no other ids."""
    return "".join(secrets.choice(string.ascii_letters + string.digits) for _ in range(9))


FORMAT = ToolFormat("mistral", _machine, markers=(_OPEN, _ID, _ARGS), new_id=_new_id)
