"""``/tokenize`` and ``/detokenize``, with vLLM's bodies."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

import msgspec
from aiohttp import web
from msgspec import Meta

from llmservice_engine.api import conversation, problem, schema
from llmservice_engine.api.conversation import Messages
from llmservice_engine.api.handlers import SERVICE, off_loop
from llmservice_engine.api.service import Service
from llmservice_engine.api.tool_use import Mode, Tool, ToolUse
from llmservice_engine.codec.codec import Codec
from llmservice_engine.codec.errors import PromptError

TokenId = Annotated[int, Meta(ge=0)]


class TokenizeRequest(msgspec.Struct, kw_only=True):
    """A ``prompt`` or ``messages``. ``add_special_tokens``: true by default for a prompt, false for messages."""

    model: str | None = None
    prompt: str | None = None
    messages: Messages | None = None
    tools: list[Tool] | None = None
    chat_template: str | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    documents: list[dict[str, Any]] | None = None
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None
    add_special_tokens: bool | None = None
    return_token_strs: bool | None = None


class TokenizeAnswer(msgspec.Struct, kw_only=True):
    count: int
    max_model_len: int
    tokens: list[int]
    token_strs: list[str] | None


class DetokenizeRequest(msgspec.Struct, kw_only=True):
    tokens: list[TokenId]
    model: str | None = None


class DetokenizeAnswer(msgspec.Struct, kw_only=True):
    prompt: str


async def tokenize(request: web.Request) -> web.Response:
    service = request.app[SERVICE]
    engine, codec = service.admitting()
    raw = await request.read()
    typed = schema.typed(schema.decode(raw), TokenizeRequest)
    _check_model(service, typed.model)
    ids = await off_loop(len(raw), partial(_ids, typed, codec, service))
    return problem.json_response(
        TokenizeAnswer(
            count=len(ids),
            max_model_len=engine.info.max_model_len,
            tokens=list(ids),
            token_strs=codec.token_strings(ids) if typed.return_token_strs else None,
        )
    )


async def detokenize(request: web.Request) -> web.Response:
    service = request.app[SERVICE]
    engine, codec = service.admitting()
    raw = await request.read()
    typed = schema.typed(schema.decode(raw), DetokenizeRequest)
    _check_model(service, typed.model)
    largest = max(typed.tokens, default=0)
    if largest >= engine.info.vocabulary:
        raise problem.bad_field(
            "tokens",
            f"token id {largest} is out of range: the model knows 0 to {engine.info.vocabulary - 1}",
        )
    text = await off_loop(len(raw), partial(codec.raw_text, typed.tokens))
    return problem.json_response(DetokenizeAnswer(prompt=text))


def _ids(typed: TokenizeRequest, codec: Codec, service: Service) -> tuple[int, ...]:
    if (typed.prompt is None) == (typed.messages is None):
        raise problem.bad_field("prompt", "give either prompt (a text) or messages (a conversation)")
    if typed.prompt is None:
        use = ToolUse(Mode.AUTO, tuple(typed.tools or ()))
        return conversation.prompt(typed, use, codec, service.settings).ids
    try:
        return codec.raw_tokens(typed.prompt, add_special_tokens=typed.add_special_tokens is not False)
    except PromptError as error:
        raise problem.bad_field(error.param, error.message) from None


def _check_model(service: Service, asked: str | None) -> None:
    """Here the model may be left out."""
    if asked is not None:
        service.model(asked)
