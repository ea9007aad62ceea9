"""The JSON of answers: whole and in chunks, for chats and for raw completions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from llmservice_engine.api import logprobs
from llmservice_engine.api.chat_reading import Answer, Reading
from llmservice_engine.api.job import Choice, Job, Piece, Report, Scored

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
    """Reads each choice's text for content, reasoning and calls."""

    id_prefix = "chatcmpl-"

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._answers: dict[int, Answer] = {}

    def whole(self, envelope: Envelope, texts: Sequence[str], job: Job) -> Object:
        choices = [
            {
                "index": choice.index,
                "message": self._answer(choice.index).message(texts[choice.index]),
                "logprobs": _told(choice.report, logprobs.chat, choice.scored),
                "finish_reason": self._answer(choice.index).finish_reason(choice.finish_reason),
            }
            for choice in job.choices
        ]
        answer = _object(envelope, "chat.completion", choices) | {"usage": usage(job)}
        return answer | _prompt_logprobs(job.choices[0])

    def opening(self, envelope: Envelope, index: int) -> Object | None:
        """The only chunk that carries the role."""
        return self._chunk(envelope, index, {"role": "assistant", "content": ""}, None)

    def chunks(self, envelope: Envelope, piece: Piece) -> list[Object]:
        answer, last = self._answer(piece.index), piece.finish_reason is not None
        deltas = answer.deltas(piece.text, last=last)
        if piece.scored and not deltas:  # tokens whose text is held back, or is none
            deltas = [{"content": ""}]
        found = [self._chunk(envelope, piece.index, delta, None) for delta in deltas]
        if piece.scored:
            found[0]["choices"][0]["logprobs"] = logprobs.chat(piece.scored)
        if last:
            found.append(self._chunk(envelope, piece.index, {}, answer.finish_reason(piece.finish_reason)))
        return found

    def usage_chunk(self, envelope: Envelope, job: Job) -> Object:
        return _object(envelope, "chat.completion.chunk", []) | {"usage": usage(job)}

    def _answer(self, index: int) -> Answer:
        return self._answers.setdefault(index, Answer(self._reading))

    def _chunk(self, envelope: Envelope, index: int, delta: Object, finish_reason: str | None) -> Object:
        choice = {"index": index, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        return _object(envelope, "chat.completion.chunk", [choice])


class Completion:
    """Tells the ``told`` best answers to each prompt, by the mean logprob of their tokens."""

    id_prefix = "cmpl-"

    def __init__(self, told: int = 1) -> None:
        self._told = told

    def whole(self, envelope: Envelope, texts: Sequence[str], job: Job) -> Object:
        choices = [
            _text_choice(
                index,
                texts[choice.index],
                choice.finish_reason,
                _told(choice.report, logprobs.completion, choice.scored),
            )
            | _prompt_logprobs(choice)
            for index, choice in enumerate(self._best(job.choices))
        ]
        return _object(envelope, "text_completion", choices) | {"usage": usage(job)}

    def _best(self, choices: Sequence[Choice]) -> list[Choice]:
        found: list[Choice] = []
        for begin in (index for index, choice in enumerate(choices) if choice.sibling == 0):
            own = [choice for choice in choices[begin:] if choice.index - choice.sibling == begin]
            if len(own) > self._told:
                own = sorted(own, key=lambda choice: -choice.mean_logprob)[: self._told]
            found += own
        return found

    def opening(self, envelope: Envelope, index: int) -> Object | None:
        return None

    def chunks(self, envelope: Envelope, piece: Piece) -> list[Object]:
        scored = logprobs.completion(piece.scored) if piece.scored else None
        choice = _text_choice(piece.index, piece.text, piece.finish_reason, scored)
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


def _text_choice(index: int, text: str, finish_reason: str | None, scored: Object | None) -> Object:
    return {"index": index, "text": text, "logprobs": scored, "finish_reason": finish_reason}


def _told(
    report: Report, form: Callable[[Sequence[Scored]], Object], scored: Sequence[Scored]
) -> Object | None:
    return None if report.logprobs is None else form(scored)


def _prompt_logprobs(choice: Choice) -> Object:
    if choice.report.prompt_logprobs is None:
        return {}
    return {"prompt_logprobs": logprobs.prompt(choice.prompt_scored)}
