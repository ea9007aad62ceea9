"""The next token of each sequence in a batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType

import torch
from torch import Tensor

from llmservice_engine.core.step import Draw, Failure
from llmservice_engine.sampling.adjust import FORBIDDEN, adjust
from llmservice_engine.sampling.noise import uniform

# Candidates kept where top_p alone cuts the vocabulary: sorting all of it costs ten times as much, and is done only
# for a distribution so flat that these do not reach top_p.
_GUESS = 1024
# Rows that are drawn together: their fp32 and fp64 copies stay small beside the logits.
_ROWS = 32


class NoToken(StrEnum):
    """Why a row gives no token."""

    NOT_FINITE = "the model's output is not finite: no token can be chosen"
    ALL_FORBIDDEN = "no token may follow: bad_words or min_tokens forbid all that may come here"

    @property
    def failure(self) -> Failure:
        return Failure(self.value, of_request=self is NoToken.ALL_FORBIDDEN)


Choose = Callable[[Tensor, Sequence[Draw]], Tensor]


def sample(
    logits: Tensor, draws: Sequence[Draw], masks: Mapping[int, bytes] = MappingProxyType({})
) -> list[int | NoToken]:
    """Choose a token for each row of ``logits`` [sequences, vocabulary], which stay as they are.

    ``masks``: the tokens that constrained rows may choose from, as :meth:`Matcher.mask` tells them.
    Each row's choice depends on that row, its draw and its mask alone.
    """
    tokens = logits.max(-1).indices  # in bf16 on a CPU six times as fast as argmax
    finite = logits.sum(-1, dtype=torch.float32).isfinite().tolist()
    possible = [True] * len(draws)
    for (choose, adjusted), rows in _alike(draws, finite, logits.shape[-1]).items():
        for begin in range(0, len(rows), _ROWS):
            some = rows[begin : begin + _ROWS]
            chosen = [draws[row] for row in some]
            wanted = logits[some].float()
            if adjusted:
                adjust(wanted, chosen, {at: masks[row] for at, row in enumerate(some) if row in masks})
                best = wanted.amax(-1).tolist()
                for row, value in zip(some, best, strict=True):
                    possible[row] = value > FORBIDDEN
            tokens[some] = choose(wanted, chosen)
    return [
        NoToken.NOT_FINITE if not ok else NoToken.ALL_FORBIDDEN if not can else token
        for token, ok, can in zip(tokens.tolist(), finite, possible, strict=True)
    ]


def _alike(
    draws: Sequence[Draw], finite: Sequence[bool], vocabulary: int
) -> dict[tuple[Choose, bool], list[int]]:
    """Rows that are chosen in the same way. Greedy ones with the model's own logits need no more than their maximum."""
    found: dict[tuple[Choose, bool], list[int]] = {}
    for row, draw in enumerate(draws):
        greedy, adjusted = draw.params.greedy, draw.params.adjusts
        if finite[row] and (adjusted or not greedy):
            choose = _best if greedy else _from_best if _filters(draw, vocabulary) else _from_all
            found.setdefault((choose, adjusted), []).append(row)
    return found


def _best(logits: Tensor, draws: Sequence[Draw]) -> Tensor:
    return logits.max(-1).indices


def _scaled(logits: Tensor, draws: Sequence[Draw]) -> Tensor:
    """Divided by the temperature, the best of each row at 0, without those that ``min_p`` cuts."""
    scaled = logits / torch.tensor([draw.params.temperature for draw in draws], device=logits.device)[:, None]
    scaled -= scaled.amax(-1, keepdim=True)
    if any(draw.params.min_p for draw in draws):
        least = torch.tensor([draw.params.min_p for draw in draws], device=logits.device).log()
        scaled.masked_fill_(scaled < least[:, None], FORBIDDEN)
    return scaled


def _filters(draw: Draw, vocabulary: int) -> bool:
    top_k = draw.params.top_k
    return draw.params.top_p < 1 or (top_k is not None and top_k < vocabulary)


def _from_all(logits: Tensor, draws: Sequence[Draw]) -> Tensor:
    """Draw from the whole vocabulary."""
    return _invert(_scaled(logits, draws).softmax(-1), draws).squeeze(-1)


def _from_best(logits: Tensor, draws: Sequence[Draw]) -> Tensor:
    """Draw from the best ``top_k`` tokens, of those from the fewest that reach ``top_p`` together.

    Which way a row takes is decided by that row alone, since ways may order equal logits differently.
    """
    logits = _scaled(logits, draws)
    whole = logits.logsumexp(-1, keepdim=True)
    best, tokens = logits.topk(min(_GUESS, logits.shape[-1]), dim=-1)
    reached = (best.logsumexp(-1, keepdim=True) - whole).exp().flatten().tolist()
    few = [_few_suffice(draw, share, best.shape[-1]) for draw, share in zip(draws, reached, strict=True)]
    chosen = tokens[:, 0].clone()
    for suffices in (True, False):
        rows = [row for row, enough in enumerate(few) if enough is suffices]
        if rows and suffices:
            chosen[rows] = _nucleus(best[rows], tokens[rows], whole[rows], [draws[row] for row in rows])
        elif rows:
            ordered, order = logits[rows].sort(dim=-1, descending=True)
            chosen[rows] = _nucleus(ordered, order, whole[rows], [draws[row] for row in rows])
    return chosen


def _few_suffice(draw: Draw, reached: float, width: int) -> bool:
    if draw.params.top_k is not None:
        return draw.params.top_k <= width
    return reached >= draw.params.top_p


def _nucleus(best: Tensor, tokens: Tensor, whole: Tensor, draws: Sequence[Draw]) -> Tensor:
    """Draw from candidates in descending order. best, tokens: [sequences, width]; whole: the vocabulary's logsumexp."""
    width = best.shape[-1]
    cuts = [draw.params.top_k is not None and draw.params.top_k < width for draw in draws]
    top_k = torch.tensor([draw.params.top_k if cut else width for draw, cut in zip(draws, cuts, strict=True)])
    beyond = torch.arange(width) >= top_k[:, None]
    best = best.masked_fill(beyond.to(best.device), float("-inf"))
    cut = torch.tensor(cuts, device=best.device)[:, None]
    shares = (best - torch.where(cut, best.logsumexp(-1, keepdim=True), whole)).exp()
    top_p = torch.tensor([draw.params.top_p for draw in draws], device=best.device)
    before = shares.cumsum(-1, dtype=torch.float64) - shares
    outside = before >= top_p[:, None]
    outside[:, 0] = False  # the best token always stays
    return tokens.gather(-1, _invert(shares.masked_fill(outside, 0), draws)).squeeze(-1)


def _invert(shares: Tensor, draws: Sequence[Draw]) -> Tensor:
    """The first column at which the running sum passes the row's draw: [sequences, 1]. Shares need no sum of 1."""
    running = shares.cumsum(-1, dtype=torch.float64)
    numbers = torch.tensor([uniform(draw.seed, draw.position) for draw in draws], dtype=torch.float64)
    targets = numbers.to(shares.device)[:, None] * running[:, -1:]
    return torch.searchsorted(running, targets, right=True).clamp_(max=shares.shape[-1] - 1)
