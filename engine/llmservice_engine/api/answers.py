"""The JSON of answers: whole and in chunks, for chats and for raw completions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from llmservice_engine.api.job import Job, Piece

DONE = b"data: [DONE]\n\n"

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Envelope:
    """What every object of one answer repeats."""

    id: str
    created: int  # Unix s
    model: str  # the name that the client asked for


class Shape(Protocol):
    """One endpoint's objects."""

    @property
    def id_prefix(self) -> str: ...
    def whole(self, envelope: Envelope, texts: Sequence[str], job: Job) -> Object: ...
    def opening(self, envelope: Envelope, index: int) -> Object | None: ...
    def chunks(self, envelope: Envelope, piece: Piece) -> list[Object]: ...
    def usage_chunk(self, envelope: Envelope, job: Job) -> Object: ...


class Chat:
    id_prefix = "chatcmpl-"

    def whole(self, envelope: Envelope, texts: Sequence[str], job: Job) -> Object:
        choices = [
            {
                "index": choice.index,
                "message": {"role": "assistant", "content": texts[choice.index], "refusal": None},
                "logprobs": None,
                "finish_reason": choice.finish_reason,
            }
            for choice in job.choices
        ]
        return _object(envelope, "chat.completion", choices) | {"usage": usage(job)}

    def opening(self, envelope: Envelope, index: int) -> Object | None:
        """The only chunk that carries the role."""
        return self._chunk(envelope, index, {"role": "assistant", "content": ""}, None)

    def chunks(self, envelope: Envelope, piece: Piece) -> list[Object]:
        found = []
        if piece.text:
            found.append(self._chunk(envelope, piece.index, {"content": piece.text}, None))
        if piece.finish_reason is not None:
            found.append(self._chunk(envelope, piece.index, {}, piece.finish_reason))
        return found

    def usage_chunk(self, envelope: Envelope, job: Job) -> Object:
        return _object(envelope, "chat.completion.chunk", []) | {"usage": usage(job)}

    def _chunk(self, envelope: Envelope, index: int, delta: Object, finish_reason: str | None) -> Object:
        choice = {"index": index, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        return _object(envelope, "chat.completion.chunk", [choice])


class Completion:
    id_prefix = "cmpl-"

    def whole(self, envelope: Envelope, texts: Sequence[str], job: Job) -> Object:
        choices = [
            _text_choice(choice.index, texts[choice.index], choice.finish_reason) for choice in job.choices
        ]
        return _object(envelope, "text_completion", choices) | {"usage": usage(job)}

    def opening(self, envelope: Envelope, index: int) -> Object | None:
        return None

    def chunks(self, envelope: Envelope, piece: Piece) -> list[Object]:
        choice = _text_choice(piece.index, piece.text, piece.finish_reason)
        return [_object(envelope, "text_completion", [choice])]

    def usage_chunk(self, envelope: Envelope, job: Job) -> Object:
        return _object(envelope, "text_completion", []) | {"usage": usage(job)}


def usage(job: Job) -> Object:
    prompt, completion = job.prompt_tokens, job.completion_tokens
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def event(body: Object) -> bytes:
    """One server-sent event."""
    return b"data: " + msgspec.json.encode(body) + b"\n\n"


def _object(envelope: Envelope, kind: str, choices: list[Object]) -> Object:
    return {
        "id": envelope.id,
        "object": kind,
        "created": envelope.created,
        "model": envelope.model,
        "choices": choices,
    }


def _text_choice(index: int, text: str, finish_reason: str | None) -> Object:
    return {"index": index, "text": text, "logprobs": None, "finish_reason": finish_reason}
