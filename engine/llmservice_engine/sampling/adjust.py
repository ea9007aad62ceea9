"""Logits as requests want them: biases, penalties, tokens that may not come. Only rows that ask are touched.

The order is vLLM's: bias, repetition, frequency and presence, then what is forbidden.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from llmservice_engine.core.step import Draw

FORBIDDEN = float("-inf")


def adjust(logits: Tensor, draws: Sequence[Draw], masks: Mapping[int, bytes]) -> None:
    """Change ``logits`` [sequences, vocabulary], fp32, in place. ``masks``: what each constrained row may choose."""
    _bias(logits, draws)
    _penalise(logits, draws)
    _forbid(logits, draws)
    for row, mask in masks.items():
        logits[row].masked_fill_(~_allowed(mask, logits.shape[-1]).to(logits.device), FORBIDDEN)


def _bias(logits: Tensor, draws: Sequence[Draw]) -> None:
    found = [(row, token, bias) for row, draw in enumerate(draws) for token, bias in draw.params.logit_bias]
    if found:
        rows, tokens, biases = zip(*found, strict=True)
        where = (torch.tensor(rows, device=logits.device), torch.tensor(tokens, device=logits.device))
        logits.index_put_(where, torch.tensor(biases, device=logits.device), accumulate=True)


def _penalise(logits: Tensor, draws: Sequence[Draw]) -> None:
    """Work on the tokens that occurred, all rows at once; never on the whole vocabulary."""
    params = [draw.params for draw in draws]
    flat = logits.view(-1)
    repeated = [row for row, one in enumerate(params) if one.repetition_penalty != 1]
    if repeated:
        cells, _ = _occurrences(logits, {row: draws[row].history for row in repeated})
        penalty = _by_row(logits, [one.repetition_penalty for one in params])[cells // logits.shape[-1]]
        seen = flat[cells]
        flat[cells] = torch.where(seen > 0, seen / penalty, seen * penalty)
    counted = [row for row, one in enumerate(params) if one.frequency_penalty or one.presence_penalty]
    if counted:
        cells, counts = _occurrences(logits, {row: draws[row].output for row in counted})
        rows = cells // logits.shape[-1]
        flat[cells] -= _by_row(logits, [one.frequency_penalty for one in params])[rows] * counts
        flat[cells] -= _by_row(logits, [one.presence_penalty for one in params])[rows]


def _occurrences(logits: Tensor, tokens: Mapping[int, array[int]]) -> tuple[Tensor, Tensor]:
    """Each cell of the flattened logits whose token occurs in its row's ``tokens``, and how often it does."""
    vocabulary = logits.shape[-1]
    cells = np.concatenate(
        [np.frombuffer(found, np.int64) + row * vocabulary for row, found in tokens.items()]
    )
    distinct, counts = np.unique(cells, return_counts=True)
    return torch.from_numpy(distinct).to(logits.device), torch.from_numpy(counts).to(logits.device)


def _by_row(logits: Tensor, values: Iterable[float]) -> Tensor:
    return torch.tensor(list(values), dtype=logits.dtype, device=logits.device)


def _forbid(logits: Tensor, draws: Sequence[Draw]) -> None:
    cells = [(row, token) for row, draw in enumerate(draws) for token in _forbidden(draw)]
    if cells:
        rows, tokens = torch.tensor(cells, device=logits.device).unbind(-1)
        logits[rows, tokens] = FORBIDDEN


def _forbidden(draw: Draw) -> Iterable[int]:
    """End tokens before ``min_tokens``; the last token of a bad word whose others have just come."""
    if draw.position - draw.prompt_tokens < draw.params.min_tokens:
        yield from draw.params.stop_token_ids
    if draw.params.bad_words:
        output = draw.output
        for *before, last in draw.params.bad_words:
            if not before or output[-len(before) :].tolist() == before:
                yield last


def _allowed(mask: bytes, vocabulary: int) -> Tensor:
    """[vocabulary], bool. A vocabulary padded beyond the mask may not be chosen there."""
    bits = np.unpackbits(np.frombuffer(mask, np.uint8), count=vocabulary, bitorder="little")
    return torch.from_numpy(bits).bool()
