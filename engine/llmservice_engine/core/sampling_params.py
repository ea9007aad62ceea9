"""How the next token is chosen, and when a request ends."""

from __future__ import annotations

from dataclasses import dataclass

from llmservice_engine.core.constraint import Constraint


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """One request's sampling, already validated and complete: nothing is filled in later.

    Stop strings are the codec's business (it sees text); the engine knows only token ids.
    """

    max_tokens: int  # 0: the prompt is computed, and nothing sampled
    temperature: float = 1.0  # 0 is greedy
    top_p: float = 1.0
    top_k: int | None = None  # None: the whole vocabulary
    min_p: float = 0.0  # tokens less likely than this share of the likeliest are not drawn
    seed: int | None = None  # None: drawn from the engine's own seed
    stop_token_ids: frozenset[int] = frozenset()  # end the text; their own text is not part of it
    min_tokens: int = 0  # output tokens before which no stop token is chosen
    presence_penalty: float = 0.0  # subtracted once from the logit of each token in the output
    frequency_penalty: float = 0.0  # subtracted as often as the token is in the output
    repetition_penalty: float = (
        1.0  # divides positive logits of tokens in prompt or output, multiplies negative ones
    )
    logit_bias: tuple[tuple[int, float], ...] = ()  # token id, what is added to its logit
    bad_words: tuple[tuple[int, ...], ...] = ()  # rows of token ids that the output must not contain
    logprobs: int | None = None  # likeliest tokens to report beside each output token; None: report nothing
    prompt_logprobs: int | None = None  # the same for each prompt token but the first
    constraint: Constraint | None = None  # what the output must match
    pooled: bool = (
        False  # with max_tokens 0: the answer is the state after the prompt's last token, as a vector
    )

    @property
    def greedy(self) -> bool:
        return self.temperature < 1e-5 or self.top_k == 1

    @property
    def penalises(self) -> bool:
        """A token's logit depends on which tokens came before."""
        return bool(self.presence_penalty or self.frequency_penalty or self.repetition_penalty != 1)

    @property
    def adjusts(self) -> bool:
        """Logits are changed before a token is chosen."""
        return bool(
            self.penalises
            or self.logit_bias
            or self.bad_words
            or self.min_tokens
            or self.constraint is not None
        )
