"""One step of the engine, decided: what is computed, where it lies, which sequences sample."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field

from llmservice_engine.core.constraint import Matcher
from llmservice_engine.core.outputs import TokenLogprobs
from llmservice_engine.core.sampling_params import SamplingParams


@dataclass(frozen=True, slots=True)
class Draw:
    """How the token at ``position`` is chosen. The same seed and position always draw the same number."""

    params: SamplingParams
    seed: int
    position: int  # of the new token in its sequence
    prompt_tokens: int = 0
    history: array[int] = field(
        default_factory=lambda: array("q")
    )  # known tokens, where `params` ask about them
    matcher: Matcher | None = None  # of the sequence's constraint

    @property
    def output(self) -> array[int]:
        return self.history[self.prompt_tokens :]


@dataclass(frozen=True, slots=True)
class Score:
    """Known prompt tokens whose logprobs are wanted, each told by the row of the token before it."""

    offset: int  # of the first such row in the chunk; the others follow it
    token_ids: tuple[int, ...]
    top: int  # likeliest tokens to report beside each


@dataclass(frozen=True, slots=True)
class Chunk:
    """Consecutive tokens of one sequence, to be computed in this step."""

    request_id: str
    token_ids: tuple[int, ...]
    start: int  # position of the first of them
    block_table: tuple[int, ...]  # blocks of positions 0 to `end`, in order
    draw: Draw | None  # None: known tokens remain after this chunk, so nothing is sampled
    score: Score | None = None
    pooled: bool = False  # the state after the last of these tokens is wanted, as a vector

    @property
    def end(self) -> int:
        """Position after the last token: how many tokens the sequence has in the cache after the step."""
        return self.start + len(self.token_ids)


@dataclass(frozen=True, slots=True)
class StepPlan:
    """Everything that one forward pass computes."""

    chunks: tuple[Chunk, ...]

    @property
    def tokens(self) -> int:
        return sum(len(chunk.token_ids) for chunk in self.chunks)


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a sequence cannot go on."""

    reason: str
    of_request: bool = False  # what it asks for cannot be had; else it is the engine's or the model's fault


@dataclass(frozen=True, slots=True)
class StepResult:
    """What came of a step: for each sequence that sampled, a token or the reason why there is none."""

    tokens: Mapping[str, int]  # by request id, as all of these
    errors: Mapping[str, Failure] = field(default_factory=dict)
    logprobs: Mapping[str, TokenLogprobs] = field(default_factory=dict)  # of the tokens that are reported
    prompt_logprobs: Mapping[str, tuple[TokenLogprobs, ...]] = field(default_factory=dict)  # of each `Score`
    vectors: Mapping[str, tuple[float, ...]] = field(default_factory=dict)  # of each pooled chunk, length 1
