"""A response, whole or as typed events."""

from __future__ import annotations

from typing import Any

import msgspec

from llmservice_engine.api.answers import Envelope
from llmservice_engine.api.chat_reading import Answer, Reading
from llmservice_engine.api.job import Job, Piece
from llmservice_engine.api.problem import Problem
from llmservice_engine.api.responses.items import Items, Object
from llmservice_engine.api.responses.schema import ResponsesRequest
from llmservice_engine.core.outputs import FinishReason
from llmservice_engine.core.sampling_params import SamplingParams


class Response:
    """The reply to one request; its answer is the job's only choice."""

    id_prefix = "resp_"

    def __init__(self, request: ResponsesRequest, reading: Reading, params: SamplingParams) -> None:
        self._request = request
        self.reading = reading
        self._params = params

    def whole(self, envelope: Envelope, texts: list[str], job: Job) -> Object:
        answer, items = Answer(self.reading), Items(self.reading.new_call_id)
        for delta in answer.read(texts[0], last=True):
            items.take(delta)
        items.end(status(job))
        return self.object(envelope, status(job), items.output) | ended(job)

    def events(self, envelope: Envelope, job: Job) -> ResponseEvents:
        return ResponseEvents(self, envelope, job)

    def object(self, envelope: Envelope, status: str, output: list[Object]) -> Object:
        """The response as it stands."""
        request = self._request
        given: dict[str, Any] = msgspec.to_builtins(request)
        text = given["text"] or {}
        return {
            "id": envelope.id,
            "object": "response",
            "created_at": envelope.created,
            "status": status,
            "background": False,
            "error": None,
            "incomplete_details": None,
            "instructions": request.instructions,
            "max_output_tokens": request.max_output_tokens,
            "metadata": request.metadata or {},
            "model": envelope.model,
            "output": output,
            "parallel_tool_calls": request.parallel_tool_calls is not False,
            "previous_response_id": None,
            "reasoning": given["reasoning"] or {"effort": None, "summary": None},
            "store": False,
            "temperature": self._params.temperature,
            "text": {"format": text.get("format") or {"type": "text"}},
            "tool_choice": given["tool_choice"] or "auto",
            "tools": given["tools"] or [],
            "top_p": self._params.top_p,
            "truncation": "disabled",
            "usage": None,
            "user": request.user,
        }


class ResponseEvents:
    """The stream: created, in progress, items, and the end that the response came to."""

    def __init__(self, reply: Response, envelope: Envelope, job: Job) -> None:
        self._reply = reply
        self._envelope = envelope
        self._job = job
        self._answer = Answer(reply.reading)
        self._items = Items(reply.reading.new_call_id)
        self._number = 0

    def begin(self) -> bytes:
        response = self._reply.object(self._envelope, "in_progress", [])
        kinds = ("response.created", "response.in_progress")
        return b"".join(self._event({"type": kind, "response": response}) for kind in kinds)

    def of(self, piece: Piece) -> bytes:
        deltas = self._answer.read(piece.text, last=piece.finish_reason is not None)
        return b"".join(self._event(event) for delta in deltas for event in self._items.take(delta))

    def end(self) -> bytes:
        job = self._job
        told = self._items.end(status(job))
        response = self._reply.object(self._envelope, status(job), self._items.output) | ended(job)
        last = {"type": f"response.{status(job)}", "response": response}
        return b"".join(map(self._event, [*told, last]))

    def failed(self, failure: Problem) -> bytes:
        self._items.close("incomplete")
        response = self._reply.object(self._envelope, "failed", self._items.output)
        response["error"] = {"code": "server_error", "message": failure.message}
        return self._event({"type": "response.failed", "response": response})

    def _event(self, body: Object) -> bytes:
        numbered = body | {"sequence_number": self._number}
        self._number += 1
        return f"event: {body['type']}\ndata: ".encode() + msgspec.json.encode(numbered) + b"\n\n"


def status(job: Job) -> str:
    return "incomplete" if job.choices[0].finish_reason is FinishReason.LENGTH else "completed"


def ended(job: Job) -> Object:
    """What is known of a response once it has ended."""
    prompt, output = job.prompt_tokens, job.completion_tokens
    cut = status(job) == "incomplete"
    return {
        "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
        "usage": {
            "input_tokens": prompt,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": output,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": prompt + output,
        },
    }
