"""A request: as it arrives, and as the scheduler keeps it."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field

from llmservice_engine.core.constraint import Matcher
from llmservice_engine.core.outputs import FinishReason, TokenLogprobs
from llmservice_engine.core.sampling_params import SamplingParams


@dataclass(frozen=True, slots=True)
class NewRequest:
    """One sequence to continue. ``request_id`` is unique among the requests that are not finished."""

    request_id: str
    prompt_token_ids: tuple[int, ...]  # at least 1
    params: SamplingParams
    priority: int = 0  # lower is sooner


@dataclass(slots=True, eq=False)
class Request:
    """A sequence under way: its known tokens, how many of them are computed, and the blocks that hold those.

    There is no prefill or decode phase: in each step ``computed`` catches up with ``known``; where it has
    caught up, a token is sampled and becomes known.
    """

    request_id: str
    params: SamplingParams
    seed: int
    prompt_tokens: int
    token_ids: array[int]  # prompt, then output
    priority: int = 0  # lower is sooner
    matcher: Matcher | None = None  # of the output's constraint
    computed: int = 0  # tokens whose keys and values are in `blocks`
    blocks: list[int] = field(default_factory=list)
    prompt_logprobs: list[TokenLogprobs] = field(default_factory=list)  # not told yet; kept when preempted

    @property
    def known(self) -> int:
        return len(self.token_ids)

    @property
    def behind(self) -> int:
        """Known tokens that are not computed yet; at least 1 between steps."""
        return self.known - self.computed

    @property
    def output_tokens(self) -> int:
        return self.known - self.prompt_tokens

    def append(self, token_id: int) -> FinishReason | None:
        """Add a sampled token. Returns why the request ends with it, if it does."""
        self.token_ids.append(token_id)
        if self.matcher is not None:
            self.matcher.advance(token_id)
            if self.matcher.finished:
                return FinishReason.STOP
        if token_id in self.params.stop_token_ids:
            return FinishReason.STOP
        if self.output_tokens >= self.params.max_tokens:
            return FinishReason.LENGTH
        return None

    def take_prompt_logprobs(self) -> tuple[TokenLogprobs, ...]:
        """What there is to tell about the prompt, once."""
        told, self.prompt_logprobs = tuple(self.prompt_logprobs), []
        return told


def start(new: NewRequest, default_seed: int) -> Request:
    """The state of a request that has just arrived; ``default_seed`` counts where it brings none."""
    constraint = new.params.constraint
    return Request(
        request_id=new.request_id,
        params=new.params,
        seed=default_seed if new.params.seed is None else new.params.seed,
        prompt_tokens=len(new.prompt_token_ids),
        token_ids=array("q", new.prompt_token_ids),
        priority=new.priority,
        matcher=None if constraint is None else constraint.start(),
    )
