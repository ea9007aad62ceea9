"""A conversation as clients send it → as chat templates want it.

Rules (documented in the API reference):
- content may be a string or a list of text parts; parts are joined with one newline;
- an assistant turn may have no content (it called a tool); it then reads as an empty text;
- ``developer`` is the newer name of ``system``, which is what templates know;
- arguments of past tool calls are decoded from their JSON string; what is not JSON stays text, and where the template
  cannot use a text, it is shown to it as an object.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from llmservice_engine.codec.errors import PromptError

PART_SEPARATOR = "\n"
ROLES = ("system", "developer", "user", "assistant", "tool", "function")
TEXT_OF_PART = {"text": "text", "input_text": "text", "output_text": "text", "refusal": "refusal"}

Message = dict[str, Any]


def normalise(messages: Sequence[object]) -> list[Message]:
    """Raises PromptError, which names the message and the field that cannot be used."""
    if not messages:
        raise PromptError("messages is empty: give at least one message", param="messages")
    return [_message(message, f"messages[{index}]") for index, message in enumerate(messages)]


def with_arguments_as_objects(messages: Sequence[Message]) -> list[Message] | None:
    """The same for a template that knows arguments as objects only; None where they all are.

    What the model once wrote wrongly stays visible, under one name; refused, it would end the conversation for good.
    """
    found = False

    def call(one: Mapping[str, Any]) -> Mapping[str, Any]:
        nonlocal found
        given = one["function"]["arguments"]
        if isinstance(given, dict):
            return one
        found = True
        return {**one, "function": {**one["function"], "arguments": {"arguments": given}}}

    made = [
        {**message, "tool_calls": list(map(call, message["tool_calls"]))}
        if "tool_calls" in message
        else message
        for message in messages
    ]
    return made if found else None


def _message(message: object, at: str) -> Message:
    if not isinstance(message, dict):
        raise PromptError(f"{at} must be an object with role and content", param=at)
    role = message.get("role")
    if role not in ROLES:
        raise PromptError(f"{at}.role is {role!r}: it must be one of {', '.join(ROLES)}", param=f"{at}.role")
    known = {key: value for key, value in message.items() if value is not None}
    known["role"] = "system" if role == "developer" else role
    known["content"] = _content(message.get("content"), f"{at}.content", may_lack=role == "assistant")
    if "tool_calls" in known:
        known["tool_calls"] = _tool_calls(known["tool_calls"], f"{at}.tool_calls")
    return known


def _content(content: object, at: str, *, may_lack: bool) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return PART_SEPARATOR.join(_part(part, f"{at}[{index}]") for index, part in enumerate(content))
    if content is None and may_lack:
        return ""
    raise PromptError(f"{at} must be a string or a list of text parts", param=at)


def _part(part: object, at: str) -> str:
    if isinstance(part, str):
        return part
    if not isinstance(part, dict):
        raise PromptError(f"{at} must be an object such as {{'type': 'text', 'text': '…'}}", param=at)
    kind = part.get("type")
    if not isinstance(kind, str) or kind not in TEXT_OF_PART:
        raise PromptError(f"{at}.type is {kind!r}: this model takes text parts only", param=f"{at}.type")
    text = part.get(TEXT_OF_PART[kind])
    if not isinstance(text, str):
        raise PromptError(f"{at}.{TEXT_OF_PART[kind]} must be a string", param=f"{at}.{TEXT_OF_PART[kind]}")
    return text


def _tool_calls(calls: object, at: str) -> list[Any]:
    if not isinstance(calls, list):
        raise PromptError(f"{at} must be a list", param=at)
    return [_tool_call(call, f"{at}[{index}]") for index, call in enumerate(calls)]


def _tool_call(call: object, at: str) -> Mapping[str, Any]:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(call, dict) or not isinstance(function, dict):
        raise PromptError(f"{at} must be an object with a function", param=at)
    return {**call, "function": {**function, "arguments": _arguments(function.get("arguments"))}}


def _arguments(text: object) -> object:
    """Templates iterate over arguments; clients send them as the JSON string that a model once wrote."""
    if not isinstance(text, str):
        return {} if text is None else text
    if not text.strip():
        return {}
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text
