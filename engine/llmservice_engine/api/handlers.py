"""``/v1/chat/completions`` and ``/v1/completions``: from the request's bytes to the answer's last byte."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic

from aiohttp import web

from llmservice_engine.api import admission, answers, fields, problem, schema
from llmservice_engine.api.admission import Admitted
from llmservice_engine.api.answers import Envelope, Shape
from llmservice_engine.api.job import Choice, Job, Piece
from llmservice_engine.api.problem import Problem
from llmservice_engine.api.schema import ChatRequest, CompletionRequest, Generate, Request
from llmservice_engine.api.service import Service
from llmservice_engine.codec.codec import Codec

if TYPE_CHECKING:
    from llmservice_engine.engine import Engine

log = logging.getLogger("llmservice.api")

SERVICE = web.AppKey("service", Service)
REQUEST_ID = web.RequestKey("request_id", str)

_INLINE_BYTES = 16_384  # a larger body is tokenised in a thread, so that it delays nobody's stream


@dataclass(frozen=True, slots=True)
class Endpoint(Generic[Request]):
    """What tells one generating endpoint from the other."""

    body: type[Request]
    refuse_unserved: Callable[[Mapping[str, Any]], None]
    admit: Callable[[Request, Codec, Engine], Admitted]
    shape: Shape


CHAT = Endpoint(ChatRequest, fields.refuse_unserved_chat, admission.chat, answers.Chat())
COMPLETION = Endpoint(
    CompletionRequest, fields.refuse_unserved_completion, admission.completion, answers.Completion()
)


async def chat(request: web.Request) -> web.StreamResponse:
    return await _generate(request, CHAT)


async def completion(request: web.Request) -> web.StreamResponse:
    return await _generate(request, COMPLETION)


async def _generate(request: web.Request, endpoint: Endpoint[Request]) -> web.StreamResponse:
    """Everything that can be refused is refused before the answer's first header."""
    service, arrived_at = request.app[SERVICE], time.monotonic()
    with service.answering():
        engine, codec = service.admitting()
        raw = await request.read()
        given = schema.decode(raw)
        typed = schema.convert(given, endpoint.body)
        endpoint.refuse_unserved(given)
        fields.log_unknown(given, endpoint.body.__struct_fields__, request[REQUEST_ID])
        model = _model(typed, service)
        admitted = await _admit(len(raw), lambda: endpoint.admit(typed, codec, engine))
        envelope = Envelope(endpoint.shape.id_prefix + uuid.uuid4().hex, int(time.time()), model)
        job = Job(request[REQUEST_ID], _choices(envelope.id, codec, admitted), arrived_at)
        return await _answer(request, typed, job, envelope, endpoint.shape)


def _model(typed: Generate, service: Service) -> str:
    """The served name that was asked for, else a 404."""
    served = service.settings.served_names
    if typed.model is None:
        raise problem.bad_field("model", f"model is missing; served: {', '.join(served)}")
    if typed.model not in served:
        raise problem.unknown_model(typed.model, served)
    return typed.model


async def _admit(body_bytes: int, admit: Callable[[], Admitted]) -> Admitted:
    return admit() if body_bytes <= _INLINE_BYTES else await asyncio.to_thread(admit)


def _choices(answer_id: str, codec: Codec, admitted: Admitted) -> list[Choice]:
    return [
        Choice(index, f"{answer_id}-{index}", prompt, params, codec.text_stream(admitted.stops))
        for index, (prompt, params) in enumerate(zip(admitted.prompts, admitted.params, strict=True))
    ]


async def _answer(
    request: web.Request, typed: Generate, job: Job, envelope: Envelope, shape: Shape
) -> web.StreamResponse:
    """Run the job and send what comes. Whatever happens, nothing of it runs on afterwards."""
    service = request.app[SERVICE]
    outcome = "aborted"
    service.submit(job)
    try:
        if typed.stream:
            response, outcome = await _stream(request, job, envelope, shape, wants_usage=typed.wants_usage)
            return response
        texts = await _texts(job)
        outcome = "ok"
        return problem.json_response(shape.whole(envelope, texts, job))
    except Problem as failure:
        outcome = failure.code or "error"
        raise
    finally:
        service.release(job)
        _log_end(job, envelope, outcome)


async def _texts(job: Job) -> list[str]:
    parts: list[list[str]] = [[] for _ in job.choices]
    async for pieces in job.pieces():
        for piece in pieces:
            parts[piece.index].append(piece.text)
    return ["".join(texts) for texts in parts]


async def _stream(
    request: web.Request, job: Job, envelope: Envelope, shape: Shape, *, wants_usage: bool
) -> tuple[web.StreamResponse, str]:
    """Send the answer as server-sent events. A failure after the headers is one event, the last."""
    response = web.StreamResponse(
        headers={"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache"}
    )
    await response.prepare(request)
    chunks = _Chunks(envelope, shape, wants_usage=wants_usage)
    try:
        async for pieces in job.pieces():
            await response.write(b"".join(map(chunks.of, pieces)))
        last = answers.event(shape.usage_chunk(envelope, job)) if wants_usage else b""
        outcome = "ok"
    except Problem as failure:
        last = answers.event(failure.body())
        outcome = failure.code or "error"
    except ConnectionError:
        return response, "aborted"  # the client has gone
    try:
        await response.write(last + answers.DONE)
        await response.write_eof()
    except ConnectionError:
        return response, "aborted"
    return response, outcome


class _Chunks:
    """Pieces as events, the role before each choice's first."""

    def __init__(self, envelope: Envelope, shape: Shape, *, wants_usage: bool) -> None:
        self._envelope = envelope
        self._shape = shape
        self._extra: answers.Object = {"usage": None} if wants_usage else {}
        self._opened: set[int] = set()

    def of(self, piece: Piece) -> bytes:
        bodies = self._shape.chunks(self._envelope, piece)
        if piece.index not in self._opened:
            self._opened.add(piece.index)
            opening = self._shape.opening(self._envelope, piece.index)
            bodies = bodies if opening is None else [opening, *bodies]
        return b"".join(answers.event(body | self._extra) for body in bodies)


def _log_end(job: Job, envelope: Envelope, outcome: str) -> None:
    first = job.choices[0].first_token_at
    log.info(
        "%s request_id=%s id=%s prompt_tokens=%d completion_tokens=%d finish=%s first_token_s=%s total_s=%.3f",
        outcome,
        job.request_id,
        envelope.id,
        job.prompt_tokens,
        job.completion_tokens,
        job.choices[0].finish_reason or "none",
        "none" if first is None else f"{first - job.arrived_at:.3f}",
        time.monotonic() - job.arrived_at,
    )
