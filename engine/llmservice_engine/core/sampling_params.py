"""How the next token is chosen, and when a request ends."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """One request's sampling, already validated and complete: nothing is filled in later.

    Stop strings are the codec's business (it sees text); the engine knows only token ids.
    """

    max_tokens: int  # at least 1
    temperature: float = 1.0  # 0 is greedy
    top_p: float = 1.0
    top_k: int | None = None  # None: the whole vocabulary
    seed: int | None = None  # None: drawn from the engine's own seed
    stop_token_ids: frozenset[int] = frozenset()  # end the text; their own text is not part of it
    ignore_eos: bool = False  # stop_token_ids do not end the text

    @property
    def greedy(self) -> bool:
        return self.temperature < 1e-5 or self.top_k == 1
