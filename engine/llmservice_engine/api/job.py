"""One HTTP request in flight: tokens come in from the engine's steps, pieces of text go out to the handler."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from llmservice_engine.api.problem import Problem
from llmservice_engine.codec.detokenizer import TextStream
from llmservice_engine.core.outputs import FinishReason, TokenDelta, TokenLogprobs
from llmservice_engine.core.sampling_params import SamplingParams


@dataclass(frozen=True, slots=True)
class Alternative:
    """A token that might have come."""

    token_id: int
    raw: bytes
    logprob: float


@dataclass(frozen=True, slots=True)
class Scored:
    """One token of an answer, or of an echoed prompt, and how likely the model found it."""

    token_id: int
    raw: bytes  # its own text, which need be no UTF-8 by itself
    offset: int  # characters of the choice's text before it
    logprob: float | None  # None: the first of a prompt, before which there is nothing to tell it by
    rank: int  # 1: no token was likelier
    top: tuple[Alternative, ...]


@dataclass(frozen=True, slots=True)
class Echo:
    """A prompt that is told as the beginning of its answer."""

    text: str
    offsets: tuple[int, ...]  # characters before each of its tokens


@dataclass(frozen=True, slots=True)
class Report:
    """What is told besides the answer's text. A number: of likeliest tokens beside each; None: nothing."""

    logprobs: int | None = None  # of the answer, and of an echoed prompt
    prompt_logprobs: int | None = None


NOTHING = Report()


@dataclass(frozen=True, slots=True)
class Piece:
    """New text of one choice. The last piece carries ``finish_reason``."""

    index: int
    text: str
    finish_reason: FinishReason | None = None
    scored: tuple[Scored, ...] = ()  # new tokens, whose text may be held back still

    def then(self, later: Piece) -> Piece:
        return Piece(self.index, self.text + later.text, later.finish_reason, self.scored + later.scored)


class Choice:
    """One sequence of the engine, seen as text."""

    def __init__(
        self,
        index: int,
        request_id: str,
        prompt: tuple[int, ...],
        params: SamplingParams,
        text: TextStream,
        *,
        sibling: int = 0,
        priority: int = 0,
        report: Report = NOTHING,
        echo: Echo | None = None,
    ) -> None:
        self.index = index
        self.request_id = request_id
        self.prompt = prompt
        self.params = params
        self.sibling = sibling  # number among the answers to the same prompt
        self.priority = priority
        self.report = report
        self.tokens = 0  # generated, the end token too
        self.first_token_at: float | None = None  # monotonic s
        self.last_token_at: float | None = None
        self.finish_reason: FinishReason | None = None
        self.embedding: tuple[float, ...] = ()  # of a pooled request
        self.scored: list[Scored] = []  # all that pieces have told
        self.prompt_scored: tuple[Scored, ...] = ()
        self._logprob = 0.0  # of all generated tokens together
        self._text = text
        self._echo = echo
        self._begun = False

    @property
    def mean_logprob(self) -> float:
        return self._logprob / max(1, self.tokens)

    def take(self, delta: TokenDelta) -> Piece:
        """What ``delta`` adds. Sets ``finish_reason`` where the answer ends."""
        self.embedding = delta.vector or self.embedding
        scored: list[Scored] = []
        texts = [] if self._begun else [self._begin(delta, scored)]
        texts += self._texts(delta, scored)
        if self.finish_reason is None and delta.finish_reason is not None:
            self.finish_reason = delta.finish_reason
            texts.append(self._text.finish())
        self.scored += scored
        return Piece(self.index, "".join(texts), self.finish_reason, tuple(scored))

    def _begin(self, delta: TokenDelta, scored: list[Scored]) -> str:
        """What is told about the prompt, with the first delta."""
        self._begun = True
        wanted = self.report
        told = (None, *delta.prompt_logprobs)
        offsets = self._echo.offsets if self._echo is not None else (0,) * len(told)
        rows = list(zip(self.prompt, offsets, told, strict=False))
        if wanted.prompt_logprobs is not None:
            self.prompt_scored = tuple(self._score(*row, wanted.prompt_logprobs) for row in rows)
        if self._echo is None:
            return ""
        if wanted.logprobs is not None:
            scored += [self._score(*row, wanted.logprobs) for row in rows]
        return self._echo.text

    def _texts(self, delta: TokenDelta, scored: list[Scored]) -> list[str]:
        last = len(delta.token_ids) - 1
        before = 0 if self._echo is None else len(self._echo.text)
        texts = []
        for position, token in enumerate(delta.token_ids):
            self.tokens += 1
            found = delta.logprobs[position] if delta.logprobs else None
            self._logprob += 0.0 if found is None else found.logprob
            if (
                delta.finish_reason is FinishReason.STOP
                and position == last
                and token in self.params.stop_token_ids
                and not self._text.rules.include_stop
            ):
                break  # the end token's own text is not part of the answer
            if found is not None and self.report.logprobs is not None:
                scored.append(self._score(token, before + self._text.length, found, self.report.logprobs))
            texts.append(self._text.push(token))
            if self._text.stopped:
                self.finish_reason = FinishReason.STOP
                break
        return texts

    def _score(self, token: int, offset: int, found: TokenLogprobs | None, top: int) -> Scored:
        raw = self._text.raw
        if found is None:
            return Scored(token, raw(token), offset, None, 0, ())
        best = zip(found.top_ids[:top], found.top_logprobs, strict=False)
        alternatives = tuple(Alternative(other, raw(other), logprob) for other, logprob in best)
        return Scored(token, raw(token), offset, found.logprob, found.rank, alternatives)


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
        """Each prompt counts once, however many answers it gets."""
        return sum(len(choice.prompt) for choice in self.choices if choice.sibling == 0)

    @property
    def completion_tokens(self) -> int:
        return sum(choice.tokens for choice in self.choices)

    def put(self, piece: Piece) -> None:
        if piece.text or piece.scored or piece.finish_reason is not None:
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
    merged: dict[int, Piece] = {}
    for piece in pieces:
        before = merged.get(piece.index)
        merged[piece.index] = piece if before is None else before.then(piece)
    return list(merged.values())
