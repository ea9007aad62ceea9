"""Every route: what it takes, what it gives. The server and ``/openapi.json`` are both made from this."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler

from llmservice_engine.api import embeddings, handlers, openapi, status, tokens
from llmservice_engine.api.handlers import SERVICE
from llmservice_engine.api.responses import endpoint as responses
from llmservice_engine.api.responses.schema import ResponsesRequest
from llmservice_engine.api.schema import ChatRequest, CompletionRequest

Body = type[msgspec.Struct]


@dataclass(frozen=True, slots=True)
class Route:
    method: str
    path: str
    handler: Handler
    about: str
    body: Body | None = None  # of the request
    answer: Body | None = None  # of a 200; None: an object, described in the guide
    open: bool = False  # needs no API key
    streams: bool = False
    text: bool = False  # the answer is no JSON


async def _describe(request: web.Request) -> web.Response:
    return openapi.answer(ALL, request.app[SERVICE].settings)


ALL = (
    Route("POST", "/v1/chat/completions", handlers.chat, "Answer a conversation", ChatRequest, streams=True),
    Route("POST", "/v1/completions", handlers.completion, "Continue a text", CompletionRequest, streams=True),
    Route("POST", "/v1/responses", responses.create, "Answer, as items", ResponsesRequest, streams=True),
    Route(
        "POST",
        "/v1/embeddings",
        embeddings.create,
        "Texts as vectors",
        embeddings.EmbeddingsRequest,
        embeddings.EmbeddingsAnswer,
    ),
    Route("GET", "/v1/models", status.models, "The served names", answer=status.Models),
    Route("GET", "/v1/models/{name:.+}", status.model, "One served name", answer=status.Model),
    Route(
        "POST",
        "/tokenize",
        tokens.tokenize,
        "A text or a conversation as token ids",
        tokens.TokenizeRequest,
        tokens.TokenizeAnswer,
    ),
    Route(
        "POST",
        "/detokenize",
        tokens.detokenize,
        "Token ids as text",
        tokens.DetokenizeRequest,
        tokens.DetokenizeAnswer,
    ),
    Route("GET", "/health", status.health, "Liveness", answer=status.Status, open=True),
    Route("GET", "/ready", status.ready, "Readiness", answer=status.Status, open=True),
    Route("GET", "/ping", status.health, "Liveness, under another name", answer=status.Status, open=True),
    Route("GET", "/load", status.load, "Requests being answered", answer=status.Load, open=True),
    Route("GET", "/version", status.version, "The engine's version", answer=status.Version, open=True),
    Route("GET", "/metrics", status.metrics, "Prometheus metrics", open=True, text=True),
    Route("GET", "/openapi.json", _describe, "This document", open=True),
)

OPEN = frozenset(route.path for route in ALL if route.open)
