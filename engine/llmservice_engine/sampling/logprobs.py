"""How likely the model found its tokens: log-softmax of its own logits, before temperature, penalties and masks."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from llmservice_engine.core.outputs import TokenLogprobs

ROWS = 32  # rows whose fp32 copies are held at the same time: they stay small beside the logits of a step


def logprobs(logits: Tensor, tokens: Sequence[int], tops: Sequence[int]) -> list[TokenLogprobs]:
    """For each row of ``logits`` [rows, vocabulary]: its token's, and those of its ``tops`` likeliest tokens."""
    found: list[TokenLogprobs] = []
    for begin in range(0, len(tokens), ROWS):
        some = slice(begin, begin + ROWS)
        found += _of_rows(logits[some], tokens[some], tops[some])
    return found


def _of_rows(logits: Tensor, tokens: Sequence[int], tops: Sequence[int]) -> list[TokenLogprobs]:
    every = logits.float().log_softmax(-1)
    own = every.gather(-1, torch.tensor(tokens, device=logits.device)[:, None])
    ranks = (every > own).sum(-1).add_(1).tolist()
    best, ids = every.topk(min(max(tops), every.shape[-1]), dim=-1)
    rows = zip(own.squeeze(-1).tolist(), ranks, ids.tolist(), best.tolist(), tops, strict=True)
    return [
        TokenLogprobs(logprob, rank, tuple(row_ids[:top]), tuple(row_best[:top]))
        for logprob, rank, row_ids, row_best, top in rows
    ]
