"""``/v1/responses``: a chat in another shape."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aiohttp import web
from llmservice_planner.settings import EngineSettings

from llmservice_engine.api import chat_admission, fields, handlers, schema
from llmservice_engine.api.handlers import Admission, Endpoint
from llmservice_engine.api.problem import Problem
from llmservice_engine.api.responses import conversion
from llmservice_engine.api.responses.reply import Response
from llmservice_engine.api.responses.schema import ResponsesRequest
from llmservice_engine.api.schema import ChatRequest
from llmservice_engine.codec.codec import Codec

if TYPE_CHECKING:
    from llmservice_engine.engine import Engine


async def create(request: web.Request) -> web.StreamResponse:
    return await handlers.generate(request, _ENDPOINT)


def _read(given: dict[str, Any]) -> ResponsesRequest:
    typed = schema.typed(given, ResponsesRequest)
    conversion.refuse_unserved(typed)
    return typed


def _admit(typed: ResponsesRequest, codec: Codec, engine: Engine, settings: EngineSettings) -> Admission:
    body = conversion.chat_body(typed)
    try:
        chat = schema.convert(body, ChatRequest)
        fields.refuse_unserved_chat(body)
        admitted, reading = chat_admission.admit(chat, codec, engine, settings)
    except Problem as error:
        raise conversion.in_own_words(error) from None
    return admitted, Response(typed, reading, admitted.params[0])


_ENDPOINT = Endpoint(ResponsesRequest.__struct_fields__, _read, _admit)
