"""A request for a response as the chat that it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from llmservice_engine.api import problem
from llmservice_engine.api.problem import Problem
from llmservice_engine.api.responses.schema import FunctionChoice, FunctionTool, ResponsesRequest

# Field → values besides null that change nothing, and why the others are refused.
_UNSERVED: Mapping[str, tuple[tuple[object, ...], str]] = {
    "store": ((False,), "responses are not stored: send store false, and the whole input with each request"),
    "previous_response_id": ((), "responses are not stored: send the earlier items in input instead"),
    "conversation": ((), "conversations are not stored: send the earlier items in input instead"),
    "background": ((False,), "background is not served: use stream"),
    "prompt": ((), "stored prompts are not served: send input and instructions"),
    "include": (([],), "include is not served: leave it out"),
    "truncation": (("disabled",), "truncation is not served: shorten the input"),
    "top_logprobs": ((0,), "top_logprobs is served by /v1/chat/completions only"),
    "max_tool_calls": ((), "max_tool_calls is of no use here: the server runs no tools of its own"),
}
# Fields of the chat → those of the request that they came from.
_ORIGIN = {
    "messages": "input",
    "response_format": "text.format",
    "max_completion_tokens": "max_output_tokens",
    "reasoning_effort": "reasoning.effort",
}


def refuse_unserved(request: ResponsesRequest) -> None:
    """Raises Problem."""
    for field, (harmless, reason) in _UNSERVED.items():
        value = getattr(request, field)
        if value is not None and value not in harmless:
            raise problem.unsupported(field, reason)


def chat_body(request: ResponsesRequest) -> dict[str, Any]:
    """The body of ``/v1/chat/completions`` that asks for the same. Raises Problem."""
    if request.input is None:
        raise problem.bad_field("input", "input is missing: give a text or items")
    messages = [{"role": "system", "content": request.instructions}] if request.instructions else []
    if isinstance(request.input, str):
        messages.append({"role": "user", "content": request.input})
    else:
        _add_items(messages, request.input)
    body = {
        "model": request.model,
        "messages": messages,
        "max_completion_tokens": request.max_output_tokens,
        "temperature": request.temperature,
        "top_p": request.top_p,
        "tools": [_tool(tool) for tool in request.tools or ()] or None,
        "tool_choice": _choice(request),
        "parallel_tool_calls": request.parallel_tool_calls,
        "response_format": _response_format(request),
        "reasoning_effort": request.reasoning.effort if request.reasoning else None,
    }
    return {name: value for name, value in body.items() if value is not None}


def in_own_words(error: Problem) -> Problem:
    """A refusal of the chat, with the field that the client sent."""
    field, bracket, _ = (error.param or "").partition("[")
    origin = _ORIGIN.get(field.partition(".")[0])
    if origin is None:
        return error
    message = error.message.replace(field, origin) if not bracket else f"{origin}: {error.message}"
    return Problem(
        error.status, message, type=error.type, param=origin, code=error.code, headers=error.headers
    )


def _add_items(messages: list[dict[str, Any]], items: list[dict[str, Any]]) -> None:
    for index, item in enumerate(items):
        kind = item.get("type", "message")
        if kind == "message":
            messages.append({"role": item.get("role"), "content": item.get("content")})
        elif kind == "function_call":
            _add_call(messages, item)
        elif kind == "function_call_output":
            messages.append(
                {"role": "tool", "tool_call_id": item.get("call_id"), "content": item.get("output")}
            )
        elif kind != "reasoning":  # which no template wants back
            raise problem.bad_field(
                f"input[{index}].type",
                f"input[{index}].type is {kind!r}: message, function_call, function_call_output and reasoning "
                "are served",
            )


def _add_call(messages: list[dict[str, Any]], item: Mapping[str, Any]) -> None:
    """Calls of one turn are one message to a template."""
    function = {"name": item.get("name"), "arguments": item.get("arguments")}
    call = {"id": item.get("call_id"), "type": "function", "function": function}
    if messages and messages[-1]["role"] == "assistant":
        messages[-1].setdefault("tool_calls", []).append(call)
    else:
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})


def _tool(tool: FunctionTool) -> dict[str, Any]:
    function = {name: value for name, value in msgspec.to_builtins(tool).items() if value is not None}
    return {"type": function.pop("type"), "function": function}


def _choice(request: ResponsesRequest) -> object:
    choice = request.tool_choice
    if isinstance(choice, FunctionChoice):
        return {"type": "function", "function": {"name": choice.name}}
    return choice


def _response_format(request: ResponsesRequest) -> dict[str, Any] | None:
    wanted = request.text.format if request.text else None
    if wanted is None or wanted.type == "text":
        return None
    if wanted.type == "json_object":
        return {"type": "json_object"}
    if wanted.schema is None:
        raise problem.bad_field("text.format.schema", "text.format.schema is missing: give a JSON schema")
    parts = {"name": wanted.name or "answer", "schema": wanted.schema, "strict": wanted.strict}
    return {
        "type": "json_schema",
        "json_schema": {name: value for name, value in parts.items() if value is not None},
    }
