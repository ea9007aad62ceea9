"""A call as a JSON object, ``{"name": …, "arguments": {…}}``, read while it grows."""

from __future__ import annotations

import json
from collections.abc import Callable

from llmservice_engine.codec.reading import Machine, Next, NotACall, Text

_ARGUMENTS = ("arguments", "parameters")

Known = Callable[[str], bool]


def any_name(name: str) -> bool:
    return bool(name)


def call_array(text: Text, known: Known) -> Machine:
    """Calls up to the ``]``; the ``[`` has been read."""
    while True:
        yield from call_object(text, known)
        separator = yield from text.skip_spaces()
        if separator == "]":
            text.held = ""
            return
        if separator != ",":
            raise NotACall


def call_object(text: Text, known: Known) -> Machine:
    """One call. Its arguments go out as they come, once its name is known.

    Raises:
        NotACall: it is another object, or none; what was not said yet is held.
    """
    if (yield from text.skip_spaces()) != "{":
        raise NotACall
    name: str | None = None
    early: str | None = None  # arguments that came before the name
    called = False
    while True:
        key = yield from _key(text)
        if key == "name" and not called:
            name = yield from _string_value(text)
            if not known(name):
                raise NotACall
            if early is not None:
                text.start_call(name)
                text.arguments(early)
                called = True
        elif key in _ARGUMENTS and not called:
            if name is None:
                early = yield from _early_arguments(text)
            else:
                yield from _arguments(text, name)
                called = True
        else:
            yield from _skip_value(text)
        separator = yield from text.skip_spaces()
        if separator == "}":
            break
        if separator != ",":
            raise NotACall
    if not called:
        raise NotACall
    text.held = ""


def object_arguments(text: Text) -> Machine:
    """Say an object, whose ``{`` has been read, as the arguments of the call that has begun."""
    text.arguments("{")
    yield from _rest(text, text.arguments)


def _arguments(text: Text, name: str) -> Machine:
    first = yield from text.skip_spaces()
    if first == "{":
        text.start_call(name)
        yield from object_arguments(text)
        return
    written = yield from _encoded_arguments(text, first)
    text.start_call(name)
    text.arguments(written)


def _early_arguments(text: Text) -> Next[str]:
    first = yield from text.skip_spaces()
    if first != "{":
        return (yield from _encoded_arguments(text, first))
    read = ["{"]
    yield from _rest(text, read.append)
    return "".join(read)


def _encoded_arguments(text: Text, first: str) -> Next[str]:
    """Some models write the object as a string that holds JSON."""
    if first == '"':
        written = yield from _string(text)
        try:
            if isinstance(json.loads(written), dict):
                return written
        except (ValueError, RecursionError):
            pass
    raise NotACall


def _key(text: Text) -> Next[str]:
    if (yield from text.skip_spaces()) != '"':
        raise NotACall
    key = yield from _string(text)
    if (yield from text.skip_spaces()) != ":":
        raise NotACall
    return key


def _string_value(text: Text) -> Next[str]:
    if (yield from text.skip_spaces()) != '"':
        raise NotACall
    return (yield from _string(text))


def _string(text: Text) -> Next[str]:
    """A string's value; its opening quote has been read."""
    written = ['"']
    yield from _rest_of_string(text, written.append)
    try:
        return str(json.loads("".join(written), strict=False))
    except ValueError:
        raise NotACall from None


def _skip_value(text: Text) -> Machine:
    first = yield from text.skip_spaces()
    if first in "{[":
        yield from _rest(text, _ignore)
    elif first == '"':
        yield from _rest_of_string(text, _ignore)
    elif first in ",}]:":
        raise NotACall
    else:
        while (yield from text.next()) not in ",}] \n\r\t":
            pass
        text.give_back()


def _rest(text: Text, say: Callable[[str], None]) -> Machine:
    """Up to the end of an object or a list; its opening bracket has been read."""
    depth = 1
    while depth:
        character = yield from text.next()
        say(character)
        if character == '"':
            yield from _rest_of_string(text, say)
        elif character in "{[":
            depth += 1
        elif character in "}]":
            depth -= 1


def _rest_of_string(text: Text, say: Callable[[str], None]) -> Machine:
    while True:
        character = yield from text.next()
        say(character)
        if character == '"':
            return
        if character == "\\":
            say((yield from text.next()))


def _ignore(_: str) -> None:
    pass
