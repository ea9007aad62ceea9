"""What is particular to conversations: messages, templates, tools, reasoning. Names are OpenAI's and vLLM's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Protocol

from llmservice_planner.settings import EngineSettings
from msgspec import Meta

from llmservice_engine.api import problem
from llmservice_engine.api.tool_use import ToolUse
from llmservice_engine.codec.errors import PromptError
from llmservice_engine.codec.messages import ROLES, TEXT_OF_PART
from llmservice_engine.codec.template import RESERVED, PromptOptions

if TYPE_CHECKING:
    from llmservice_engine.codec.codec import ChatPrompt, Codec

_TEXT: dict[str, Any] = {"type": "string"}
_PARTS = [
    {"type": "object", "properties": {"type": {"const": kind}, field: _TEXT}, "required": ["type", field]}
    for kind, field in TEXT_OF_PART.items()
]
_CONTENT: dict[str, Any] = {"anyOf": [_TEXT, {"type": "array", "items": {"anyOf": [_TEXT, *_PARTS]}}]}
_MESSAGE: dict[str, Any] = {  # what codec.messages checks, and names more exactly than a schema could
    "minItems": 1,
    "items": {
        "type": "object",
        "properties": {
            "role": {"enum": list(ROLES)},
            "content": {"anyOf": [*_CONTENT["anyOf"], {"type": "null"}]},
            "tool_calls": {"anyOf": [{"type": "array", "items": {"type": "object"}}, {"type": "null"}]},
        },
        "required": ["role"],
        "anyOf": [
            {"properties": {"role": {"const": "assistant"}}},
            {"properties": {"content": _CONTENT}, "required": ["content"]},
        ],
    },
}


Messages = Annotated[list[Any], Meta(extra_json_schema=_MESSAGE)]


class Conversation(Protocol):
    """The fields that make a prompt."""

    messages: list[Any] | None
    chat_template: str | None
    chat_template_kwargs: dict[str, Any] | None
    documents: list[dict[str, Any]] | None
    add_generation_prompt: bool | None
    continue_final_message: bool | None
    add_special_tokens: bool | None


def prompt(request: Conversation, use: ToolUse, codec: Codec, settings: EngineSettings) -> ChatPrompt:
    """Raises Problem."""
    if request.messages is None:
        raise problem.bad_field("messages", "messages is missing: give at least one message")
    try:
        return codec.chat_prompt(request.messages, _options(request, use, settings))
    except PromptError as error:
        raise problem.bad_field(error.param, error.message) from None


def _options(request: Conversation, use: ToolUse, settings: EngineSettings) -> PromptOptions:
    continued = bool(request.continue_final_message)
    if continued and request.add_generation_prompt:
        raise problem.bad_field(
            "continue_final_message",
            "continue_final_message and add_generation_prompt exclude each other: leave one of them out",
        )
    if request.chat_template is not None and not settings.trust_request_chat_template:
        raise problem.unsupported(
            "chat_template",
            "a request's own chat_template is served with the engine's --trust-request-chat-template only: "
            "leave it out, or start the engine with --chat-template FILE",
        )
    more = request.chat_template_kwargs or {}
    if taken := RESERVED & more.keys():
        name = min(taken)
        raise problem.bad_field(
            f"chat_template_kwargs.{name}",
            f"chat_template_kwargs.{name} is the request's own field {name}: give it there",
        )
    return PromptOptions(
        tools=use.for_template,
        documents=request.documents or (),
        add_generation_prompt=not continued and request.add_generation_prompt is not False,
        continue_final_message=continued,
        add_special_tokens=bool(request.add_special_tokens),
        template=request.chat_template,
        more=more,
    )
