"""A step's plan becomes tensors, the tensors become tokens."""

from __future__ import annotations

import torch

from llmservice_engine.core.sampling_params import SamplingParams
from llmservice_engine.core.step import Chunk, Draw, StepPlan, StepResult
from llmservice_engine.models.registry import Decoder
from llmservice_engine.ops.attention.interface import Attention
from llmservice_engine.sampling.sampler import sample

NOT_FINITE = "the model's output is not finite: no token can be chosen"


class ModelRunner:
    """Runs one forward pass a step."""

    def __init__(self, model: Decoder, attention: Attention, device: str) -> None:
        self._model = model
        self._attention = attention
        self._device = device

    @torch.inference_mode()
    def run(self, plan: StepPlan) -> StepResult:
        """Compute the plan's tokens and sample for each sequence that has caught up."""
        chunks = sorted(plan.chunks, key=_singles_first)
        token_ids = torch.tensor(
            [token for chunk in chunks for token in chunk.token_ids], device=self._device
        )
        positions = torch.tensor(
            [position for chunk in chunks for position in range(chunk.start, chunk.end)], device=self._device
        )
        hidden = self._model.forward(token_ids, positions, self._attention.prepare(chunks))
        return self._sample(chunks, hidden)

    def warm_up(self, tokens: int) -> None:
        """One prompt of ``tokens`` and one more token, so that no request pays for what happens only once.

        Writes to block 0, which nobody owns yet.
        """
        draw = Draw(SamplingParams(max_tokens=1, temperature=0), seed=0, position=tokens)
        self.run(StepPlan((Chunk("warm-up", (0,) * tokens, 0, (0,), draw),)))
        self.run(StepPlan((Chunk("warm-up", (0,), tokens - 1, (0,), draw),)))

    def _sample(self, chunks: list[Chunk], hidden: torch.Tensor) -> StepResult:
        """Logits only for the last token of each sequence that samples."""
        rows, ids, draws = [], [], []
        row = -1
        for chunk in chunks:
            row += len(chunk.token_ids)
            if chunk.draw is not None:
                rows.append(row)
                ids.append(chunk.request_id)
                draws.append(chunk.draw)
        if not rows:
            return StepResult({})
        if len(rows) < len(hidden):
            hidden = hidden[torch.tensor(rows, device=self._device)]
        sampled = dict(zip(ids, sample(self._model.logits(hidden), draws), strict=True))
        return StepResult(
            tokens={key: token for key, token in sampled.items() if token is not None},
            errors={key: NOT_FINITE for key, token in sampled.items() if token is None},
        )


def _singles_first(chunk: Chunk) -> tuple[bool, int]:
    """The order that attention asks for: chunks of one token first, shortest sequence first."""
    return len(chunk.token_ids) > 1, len(chunk.block_table)
