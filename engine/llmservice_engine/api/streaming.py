"""An answer as server-sent events."""

from __future__ import annotations

from typing import Any, Protocol

from llmservice_engine.api import answers
from llmservice_engine.api.answers import Envelope, Shape
from llmservice_engine.api.job import Job, Piece
from llmservice_engine.api.problem import Problem


class Events(Protocol):
    """One answer's stream, from its first byte to its last."""

    def begin(self) -> bytes: ...
    def of(self, piece: Piece) -> bytes: ...
    def end(self, job: Job) -> bytes: ...
    def failed(self, failure: Problem) -> bytes: ...


class Reply(Protocol):
    """How one request is answered, whole or as a stream."""

    @property
    def id_prefix(self) -> str: ...
    def whole(self, envelope: Envelope, texts: list[str], job: Job) -> dict[str, Any]: ...
    def events(self, envelope: Envelope) -> Events: ...


class Chunked:
    """A reply whose stream is chunks of its object: chats and raw completions."""

    def __init__(self, shape: Shape, *, wants_usage: bool) -> None:
        self.id_prefix = shape.id_prefix
        self.whole = shape.whole
        self._shape = shape
        self._wants_usage = wants_usage

    def events(self, envelope: Envelope) -> Events:
        return _Chunks(envelope, self._shape, wants_usage=self._wants_usage)


class _Chunks:
    """Pieces as events, the role before each choice's first. A failure is the last event but ``[DONE]``."""

    def __init__(self, envelope: Envelope, shape: Shape, *, wants_usage: bool) -> None:
        self._envelope = envelope
        self._shape = shape
        self._wants_usage = wants_usage
        self._extra: answers.Object = {"usage": None} if wants_usage else {}
        self._opened: set[int] = set()

    def begin(self) -> bytes:
        return b""

    def of(self, piece: Piece) -> bytes:
        bodies = self._shape.chunks(self._envelope, piece)
        if piece.index not in self._opened:
            self._opened.add(piece.index)
            opening = self._shape.opening(self._envelope, piece.index)
            bodies = bodies if opening is None else [opening, *bodies]
        return b"".join(answers.event(body | self._extra) for body in bodies)

    def end(self, job: Job) -> bytes:
        usage = answers.event(self._shape.usage_chunk(self._envelope, job)) if self._wants_usage else b""
        return usage + answers.DONE

    def failed(self, failure: Problem) -> bytes:
        return answers.event(failure.body()) + answers.DONE
