"""``/v1/chat/completions`` and ``/v1/completions``: from the request's bytes to the answer's last byte."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from aiohttp import web
from llmservice_planner.settings import EngineSettings

from llmservice_engine.api import admission, answers, chat_admission, fields, problem, schema
from llmservice_engine.api.admission import Admitted
from llmservice_engine.api.answers import Envelope
from llmservice_engine.api.job import Job
from llmservice_engine.api.problem import Problem
from llmservice_engine.api.schema import ChatRequest, CompletionRequest
from llmservice_engine.api.service import Service
from llmservice_engine.api.streaming import Chunked, Events, Reply
from llmservice_engine.codec.codec import Codec

if TYPE_CHECKING:
    from llmservice_engine.engine import Engine

log = logging.getLogger("llmservice.api")

SERVICE = web.AppKey("service", Service)
REQUEST_ID = web.RequestKey("request_id", str)

Found = TypeVar("Found")

_INLINE_BYTES = 16_384  # a larger body is tokenised in a thread, so that it delays nobody's stream


Admission = tuple[Admitted, Reply]


class Asked(Protocol):
    """What every generating request may say."""

    @property
    def model(self) -> str | None: ...
    @property
    def stream(self) -> bool | None: ...


Typed = TypeVar("Typed", bound=Asked)


@dataclass(frozen=True, slots=True)
class Endpoint(Generic[Typed]):
    """What tells one generating endpoint from the other. Both functions raise Problem."""

    fields: tuple[str, ...]  # that the body may have
    read: Callable[[dict[str, Any]], Typed]
    admit: Callable[[Typed, Codec, Engine, EngineSettings], Admission]


def _read_chat(given: dict[str, Any]) -> ChatRequest:
    typed = schema.convert(given, ChatRequest)
    fields.refuse_unserved_chat(given)
    return typed


def _read_completion(given: dict[str, Any]) -> CompletionRequest:
    typed = schema.convert(given, CompletionRequest)
    fields.refuse_unserved_completion(given)
    return typed


def _admit_chat(typed: ChatRequest, codec: Codec, engine: Engine, settings: EngineSettings) -> Admission:
    admitted, reading = chat_admission.admit(typed, codec, engine, settings)
    return admitted, Chunked(answers.Chat(reading), typed.stream_options)


def _admit_completion(typed: CompletionRequest, codec: Codec, engine: Engine, _: EngineSettings) -> Admission:
    admitted = admission.completion(typed, codec, engine)
    return admitted, Chunked(answers.Completion(typed.n or 1), typed.stream_options)


CHAT = Endpoint(ChatRequest.__struct_fields__, _read_chat, _admit_chat)
COMPLETION = Endpoint(CompletionRequest.__struct_fields__, _read_completion, _admit_completion)


async def chat(request: web.Request) -> web.StreamResponse:
    return await generate(request, CHAT)


async def completion(request: web.Request) -> web.StreamResponse:
    return await generate(request, COMPLETION)


async def generate(request: web.Request, endpoint: Endpoint[Typed]) -> web.StreamResponse:
    """Everything that can be refused is refused before the answer's first header."""
    service, arrived_at = request.app[SERVICE], time.monotonic()
    with service.answering():
        engine, codec = service.admitting()
        raw = await request.read()
        given = schema.decode(raw)
        typed = endpoint.read(given)
        fields.log_unknown(given, endpoint.fields, request[REQUEST_ID])
        model = service.model(typed.model)
        admitted, reply = await off_loop(
            len(raw),
            lambda: endpoint.admit(typed, codec, engine, service.settings),
            slow=not given.keys().isdisjoint(fields.SLOW),
        )
        envelope = Envelope(reply.id_prefix + uuid.uuid4().hex, int(time.time()), model)
        job = Job(request[REQUEST_ID], admission.choices(envelope.id, codec, admitted), arrived_at)
        return await _answer(request, job, envelope, reply, stream=bool(typed.stream))


async def off_loop(body_bytes: int, work: Callable[[], Found], *, slow: bool = False) -> Found:
    """What ``work`` finds; for a large body, and where it is slow anyway, it works in a thread."""
    return await asyncio.to_thread(work) if slow or body_bytes > _INLINE_BYTES else work()


async def _answer(
    request: web.Request, job: Job, envelope: Envelope, reply: Reply, *, stream: bool
) -> web.StreamResponse:
    """Run the job and send what comes. Whatever happens, nothing of it runs on afterwards."""
    service = request.app[SERVICE]
    outcome = "aborted"
    service.submit(job)
    try:
        if stream:
            response, outcome = await _stream(request, job, reply.events(envelope, job))
            return response
        texts = await _texts(job)
        outcome = "ok"
        return problem.json_response(reply.whole(envelope, texts, job))
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


async def _stream(request: web.Request, job: Job, events: Events) -> tuple[web.StreamResponse, str]:
    """Send the answer as server-sent events. A failure after the headers is one event, the last."""
    response = web.StreamResponse(
        headers={"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache"}
    )
    await response.prepare(request)
    try:
        begin = events.begin()
        async for pieces in job.pieces():
            if found := begin + b"".join(map(events.of, pieces)):
                await response.write(found)
            begin = b""
        last = events.end()
        outcome = "ok"
    except Problem as failure:
        last = events.failed(failure)
        outcome = failure.code or "error"
    except ConnectionError:
        return response, "aborted"  # the client has gone
    try:
        await response.write(last)
        await response.write_eof()
    except ConnectionError:
        return response, "aborted"
    return response, outcome


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
