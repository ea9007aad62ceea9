"""What the engine tells the outside: new tokens, and gauges."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class FinishReason(StrEnum):
    STOP = "stop"
    LENGTH = "length"
    ABORT = "abort"
    ERROR = "error"
    REFUSED = "refused"  # nothing could come of this request, whatever the engine does


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    """How likely the model found one token, by the log-softmax of its own logits: before temperature or penalties."""

    logprob: float
    rank: int  # 1: no token was likelier
    top_ids: tuple[int, ...]  # the likeliest tokens, best first
    top_logprobs: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class TokenDelta:
    """New tokens of one request since its last delta. The last delta carries ``finish_reason``."""

    request_id: str
    token_ids: tuple[int, ...]
    finish_reason: FinishReason | None = None
    error: str | None = None
    logprobs: tuple[TokenLogprobs, ...] = ()  # one a token, where they are wanted
    prompt_logprobs: tuple[
        TokenLogprobs, ...
    ] = ()  # with the first delta, of the prompt's second token onwards
    vector: tuple[float, ...] = ()  # of a pooled request, of length 1


@dataclass(frozen=True, slots=True)
class EngineStats:
    """Gauges and running totals, as of the end of the last step."""

    running: int  # requests in the batch
    waiting: int  # requests queued
    kv_usage: float  # share of the blocks in use, 0..1
    preemptions: int  # total
    steps: int  # total
    step_tokens: int  # of the last step


@dataclass(frozen=True, slots=True)
class EngineInfo:
    """What is true of a loaded engine until it ends. Bytes, tokens, seconds."""

    max_model_len: int
    vocabulary: int
    eos_token_ids: frozenset[int]
    dtype: str
    device: str  # "cpu" or "cuda:0"
    block_size: int
    blocks: int
    weight_bytes: int
    kv_bytes: int
    activation_bytes: int  # of the largest step
    overhead_bytes: int  # of the process and the runtime
    available_bytes: int  # that there were for weights, activations and cache
    parameters: int
    load_seconds: float
