"""Calls as Python: the answer is ``[f(a=1, b="x"), g()]``; Llama 4 may put it between two markers."""

from __future__ import annotations

import ast
import json

from llmservice_engine.codec.reading import Machine, Next, NotACall, Text, until
from llmservice_engine.codec.tools.interface import ToolFormat

_OPEN, _CLOSE = "<|python_start|>", "<|python_end|>"


def _machine(text: Text, names: frozenset[str]) -> Machine:
    first = yield from text.skip_spaces()
    text.give_back()
    if first == "[":
        yield from _calls(text, names)
    while True:
        if (yield from until(text, _OPEN, _CLOSE)) == _OPEN:
            yield from _calls(text, names)
        else:
            text.held = ""


def _calls(text: Text, names: frozenset[str]) -> Machine:
    try:
        if (yield from text.skip_spaces()) != "[":
            raise NotACall
        while True:
            yield from _call(text, names)
            separator = yield from text.skip_spaces()
            if separator == "]":
                text.held = ""
                return
            if separator != ",":
                raise NotACall
    except NotACall:
        text.release()


def _call(text: Text, names: frozenset[str]) -> Machine:
    """A call is said when it is whole: what Python means by it is JSON only then."""
    name = yield from text.skip_spaces()
    while (character := (yield from text.next())) != "(":
        name += character
        if not any(known.startswith(name) for known in names):
            raise NotACall
    if name not in names:
        raise NotACall
    arguments = _as_json((yield from _rest_of_call(text)))
    text.start_call(name)
    text.arguments(arguments)


def _rest_of_call(text: Text) -> Next[str]:
    """The arguments, as Python; the ``(`` has been read, the ``)`` is not part of it."""
    written, depth = "", 1
    while True:
        character = yield from text.next()
        depth += (character in "([{") - (character in ")]}")
        if not depth:
            return written
        written += character
        if character in "'\"":
            written += yield from _rest_of_string(text, character)


def _rest_of_string(text: Text, quote: str) -> Next[str]:
    written = ""
    while True:
        character = yield from text.next()
        written += character
        if character == quote:
            return written
        if character == "\\":
            written += yield from text.next()


def _as_json(arguments: str) -> str:
    """``a=1, b=None`` → ``{"a": 1, "b": null}``."""
    try:
        call = ast.parse(f"f({arguments})", mode="eval").body
        if not isinstance(call, ast.Call) or call.args or any(word.arg is None for word in call.keywords):
            raise NotACall
        return json.dumps(
            {word.arg: ast.literal_eval(word.value) for word in call.keywords}, ensure_ascii=False
        )
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        raise NotACall from None


FORMAT = ToolFormat("pythonic", _machine, markers=(_OPEN, _CLOSE))
