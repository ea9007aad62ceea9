"""A step's plan becomes tensors, the tensors become tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import accumulate

import torch

from llmservice_engine.core.errors import RequestError
from llmservice_engine.core.outputs import TokenLogprobs
from llmservice_engine.core.sampling_params import SamplingParams
from llmservice_engine.core.step import Chunk, Draw, Failure, Score, StepPlan, StepResult
from llmservice_engine.models.registry import Decoder
from llmservice_engine.ops.attention.interface import Attention
from llmservice_engine.sampling.logprobs import ROWS, logprobs
from llmservice_engine.sampling.sampler import NoToken, sample

_MASK_THREADS = 4  # each mask takes 0.01 to 1 ms, without the interpreter's lock


class ModelRunner:
    """Runs one forward pass a step."""

    def __init__(self, model: Decoder, attention: Attention, device: str) -> None:
        self._model = model
        self._attention = attention
        self._device = device
        self._masks = ThreadPoolExecutor(_MASK_THREADS, "mask")  # starts no thread before it is asked

    @torch.inference_mode()
    def run(self, plan: StepPlan) -> StepResult:
        """Compute the plan's tokens and sample for each sequence that has caught up."""
        chunks = sorted(plan.chunks, key=_singles_first)
        masks = {
            chunk.request_id: self._masks.submit(chunk.draw.matcher.mask)
            for chunk in chunks
            if chunk.draw is not None and chunk.draw.matcher is not None
        }
        token_ids = torch.tensor(
            [token for chunk in chunks for token in chunk.token_ids], device=self._device
        )
        positions = torch.tensor(
            [position for chunk in chunks for position in range(chunk.start, chunk.end)], device=self._device
        )
        hidden = self._model.forward(token_ids, positions, self._attention.prepare(chunks))
        prompt_logprobs, broken = self._score(chunks, hidden)
        tokens, reported, errors = self._sample(chunks, hidden, masks)
        vectors, unusable = _pooled(chunks, hidden)
        return StepResult(tokens, errors | broken | unusable, reported, prompt_logprobs, vectors)

    def warm_up(self, tokens: int) -> None:
        """One prompt of ``tokens`` and one more token, so that no request pays for what happens only once.

        Writes to block 0, which nobody owns yet.
        """
        draw = Draw(SamplingParams(max_tokens=1, temperature=0), seed=0, position=tokens)
        self.run(StepPlan((Chunk("warm-up", (0,) * tokens, 0, (0,), draw),)))
        self.run(StepPlan((Chunk("warm-up", (0,), tokens - 1, (0,), draw),)))

    def _sample(
        self, chunks: Sequence[Chunk], hidden: torch.Tensor, masks: Mapping[str, Future[bytes]]
    ) -> tuple[dict[str, int], dict[str, TokenLogprobs], dict[str, Failure]]:
        """Tokens, their logprobs and errors by request. Logits only for the last token of who samples."""
        rows, ids, draws = [], [], []
        row = -1
        for chunk in chunks:
            row += len(chunk.token_ids)
            if chunk.draw is not None:
                rows.append(row)
                ids.append(chunk.request_id)
                draws.append(chunk.draw)
        if not rows:
            return {}, {}, {}
        if len(rows) < len(hidden):
            hidden = hidden[torch.tensor(rows, device=self._device)]
        logits = self._model.logits(hidden)
        allowed, errors = _collect(ids, masks)
        sampled = dict(zip(ids, sample(logits, draws, allowed), strict=True))
        errors = {key: token.failure for key, token in sampled.items() if isinstance(token, NoToken)} | errors
        tokens = {
            key: token
            for key, token in sampled.items()
            if not isinstance(token, NoToken) and key not in errors
        }
        return tokens, _reported(logits, ids, draws, tokens), errors

    def _score(
        self, chunks: Sequence[Chunk], hidden: torch.Tensor
    ) -> tuple[dict[str, tuple[TokenLogprobs, ...]], dict[str, Failure]]:
        """Logprobs of prompt tokens and errors by request. A few rows at a time: never [tokens, vocabulary]."""
        found: dict[str, tuple[TokenLogprobs, ...]] = {}
        errors: dict[str, Failure] = {}
        start = 0
        for chunk in chunks:
            if chunk.score is not None:
                first = start + chunk.score.offset
                own = self._scored(hidden[first : first + len(chunk.score.token_ids)], chunk.score)
                if own is None:
                    errors[chunk.request_id] = NoToken.NOT_FINITE.failure
                else:
                    found[chunk.request_id] = own
            start += len(chunk.token_ids)
        return found, errors

    def _scored(self, hidden: torch.Tensor, score: Score) -> tuple[TokenLogprobs, ...] | None:
        """None where the model's output is not finite."""
        found: list[TokenLogprobs] = []
        for begin in range(0, len(hidden), ROWS):
            tokens = score.token_ids[begin : begin + ROWS]
            logits = self._model.logits(hidden[begin : begin + ROWS])
            if not logits.sum(dtype=torch.float32).isfinite():
                return None
            found += logprobs(logits, tokens, [score.top] * len(tokens))
        return tuple(found)


def _pooled(
    chunks: Sequence[Chunk], hidden: torch.Tensor
) -> tuple[dict[str, tuple[float, ...]], dict[str, Failure]]:
    """Vectors of length 1 and errors by request: the state after the last token of who asks."""
    ends = accumulate(len(chunk.token_ids) for chunk in chunks)
    rows = {chunk.request_id: end - 1 for chunk, end in zip(chunks, ends, strict=True) if chunk.pooled}
    if not rows:
        return {}, {}
    vectors = torch.nn.functional.normalize(hidden[list(rows.values())].float(), dim=-1)
    finite = vectors.isfinite().all(-1).tolist()
    named = list(zip(rows, vectors.tolist(), finite, strict=True))
    return (
        {key: tuple(vector) for key, vector, usable in named if usable},
        {key: NoToken.NOT_FINITE.failure for key, _, usable in named if not usable},
    )


def _collect(
    ids: Sequence[str], masks: Mapping[str, Future[bytes]]
) -> tuple[dict[int, bytes], dict[str, Failure]]:
    """Masks by row, and by request why there is none."""
    allowed: dict[int, bytes] = {}
    errors: dict[str, Failure] = {}
    for row, key in enumerate(ids):
        if key in masks:
            try:
                allowed[row] = masks[key].result()
            except RequestError as error:
                errors[key] = Failure(error.message, of_request=True)
    return allowed, errors


def _reported(
    logits: torch.Tensor, ids: Sequence[str], draws: Sequence[Draw], tokens: Mapping[str, int]
) -> dict[str, TokenLogprobs]:
    """For the rows that ask and have a token."""
    asked = [
        (row, key, draw.params.logprobs)
        for row, (key, draw) in enumerate(zip(ids, draws, strict=True))
        if draw.params.logprobs is not None and key in tokens
    ]
    if not asked:
        return {}
    rows, keys, tops = zip(*asked, strict=True)
    return dict(zip(keys, logprobs(logits[list(rows)], [tokens[key] for key in keys], tops), strict=True))


def _singles_first(chunk: Chunk) -> tuple[bool, int]:
    """The order that attention asks for: chunks of one token first, shortest sequence first."""
    return len(chunk.token_ids) > 1, len(chunk.block_table)
