"""One HTTP request in flight: tokens come in from the engine's steps, pieces of text go out to the handler."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from llmservice_engine.api.problem import Problem
from llmservice_engine.codec.detokenizer import TextStream
from llmservice_engine.core.outputs import FinishReason, TokenDelta
from llmservice_engine.core.sampling_params import SamplingParams


@dataclass(frozen=True, slots=True)
class Piece:
    """New text of one choice. The last piece carries ``finish_reason``."""

    index: int
    text: str
    finish_reason: FinishReason | None = None


class Choice:
    """One sequence of the engine, seen as text."""

    def __init__(
        self, index: int, request_id: str, prompt: tuple[int, ...], params: SamplingParams, text: TextStream
    ) -> None:
        self.index = index
        self.request_id = request_id
        self.prompt = prompt
        self.params = params
        self.tokens = 0  # generated, the end token too
        self.first_token_at: float | None = None  # monotonic s
        self.last_token_at: float | None = None
        self.finish_reason: FinishReason | None = None
        self._text = text

    def take(self, delta: TokenDelta) -> str:
        """The text that ``delta`` adds. Sets ``finish_reason`` where the answer ends."""
        text = "".join(self._texts(delta))
        if self.finish_reason is None and delta.finish_reason is not None:
            self.finish_reason = delta.finish_reason
            text += self._text.finish()
        return text

    def _texts(self, delta: TokenDelta) -> list[str]:
        last = len(delta.token_ids) - 1
        texts = []
        for position, token in enumerate(delta.token_ids):
            self.tokens += 1
            if (
                delta.finish_reason is FinishReason.STOP
                and position == last
                and token in self.params.stop_token_ids
            ):
                break  # the end token's own text is not part of the answer
            texts.append(self._text.push(token))
            if self._text.stopped:
                self.finish_reason = FinishReason.STOP
                break
        return texts


class Job:
    """The choices of one HTTP request. Touched on the event loop only."""

    def __init__(
        self, request_id: str, choices: Sequence[Choice], arrived_at: float, *, counted: bool = True
    ) -> None:
        self.request_id = request_id
        self.choices = choices
        self.arrived_at = arrived_at  # monotonic s
        self.counted = counted  # in the metrics: all but the warm-up
        self._pending: list[Piece] = []
        self._failure: Problem | None = None
        self._wake = asyncio.Event()

    @property
    def prompt_tokens(self) -> int:
        return sum(len(choice.prompt) for choice in self.choices)

    @property
    def completion_tokens(self) -> int:
        return sum(choice.tokens for choice in self.choices)

    def put(self, piece: Piece) -> None:
        if piece.text or piece.finish_reason is not None:
            self._pending.append(piece)
            self._wake.set()

    def fail(self, problem: Problem) -> None:
        """End the whole request with ``problem``; what came before it still goes out."""
        if self._failure is None:
            self._failure = problem
            self._wake.set()

    async def pieces(self) -> AsyncIterator[list[Piece]]:
        """Everything new since the last time, merged by choice: a slow client gets few large pieces.

        Raises:
            Problem: the engine could not finish.
        """
        while True:
            await self._wake.wait()
            self._wake.clear()
            pending, self._pending = self._pending, []
            if pending:
                yield _merge(pending)
            if self._failure is not None:
                raise self._failure
            if all(choice.finish_reason is not None for choice in self.choices) and not self._pending:
                return


def _merge(pieces: Sequence[Piece]) -> list[Piece]:
    if len(pieces) == 1:
        return list(pieces)
    merged: dict[int, Piece] = {}
    for piece in pieces:
        before = merged.get(piece.index)
        text = piece.text if before is None else before.text + piece.text
        merged[piece.index] = Piece(piece.index, text, piece.finish_reason)
    return list(merged.values())
