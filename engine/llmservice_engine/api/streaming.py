"""An answer as server-sent events."""

from __future__ import annotations

from typing import Any, Protocol

from llmservice_engine.api import answers
from llmservice_engine.api.answers import Envelope, Shape
from llmservice_engine.api.job import Job, Piece
from llmservice_engine.api.problem import Problem
from llmservice_engine.api.schema import StreamOptions


class Events(Protocol):
    """One answer's stream, from its first byte to its last."""

    def begin(self) -> bytes: ...
    def of(self, piece: Piece) -> bytes: ...
    def end(self) -> bytes: ...
    def failed(self, failure: Problem) -> bytes: ...


class Reply(Protocol):
    """How one request is answered, whole or as a stream."""

    @property
    def id_prefix(self) -> str: ...
    def whole(self, envelope: Envelope, texts: list[str], job: Job) -> dict[str, Any]: ...
    def events(self, envelope: Envelope, job: Job) -> Events: ...


class Chunked:
    """A reply whose stream is chunks of its object: chats and raw completions."""

    def __init__(self, shape: Shape, options: StreamOptions | None) -> None:
        self.id_prefix = shape.id_prefix
        self.whole = shape.whole
        self._shape = shape
        self._options = options or StreamOptions()

    def events(self, envelope: Envelope, job: Job) -> Events:
        return _Chunks(envelope, job, self._shape, self._options)


class _Chunks:
    """Pieces as events, the role before each choice's first. A failure is the last event but ``[DONE]``."""

    def __init__(self, envelope: Envelope, job: Job, shape: Shape, options: StreamOptions) -> None:
        self._envelope = envelope
        self._job = job
        self._shape = shape
        self._options = options
        self._opened: set[int] = set()

    def begin(self) -> bytes:
        return b""

    def of(self, piece: Piece) -> bytes:
        bodies = self._shape.chunks(self._envelope, piece)
        if piece.index not in self._opened:
            self._opened.add(piece.index)
            opening = self._shape.opening(self._envelope, piece.index)
            bodies = bodies if opening is None else [opening, *bodies]
        usage = self._usage()
        return b"".join(answers.event(body | usage) for body in bodies)

    def end(self) -> bytes:
        if not self._options.include_usage:
            return answers.DONE
        return answers.event(self._shape.usage_chunk(self._envelope, self._job)) + answers.DONE

    def failed(self, failure: Problem) -> bytes:
        return answers.event(failure.body()) + answers.DONE

    def _usage(self) -> answers.Object:
        """Of every chunk but the last, which tells it all."""
        if not self._options.include_usage:
            return {}
        return {"usage": answers.usage(self._job) if self._options.continuous_usage_stats else None}
