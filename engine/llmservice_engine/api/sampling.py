"""The fields that say how tokens are chosen. Names and bounds are OpenAI's, and vLLM's for its extensions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta

from llmservice_engine.api.problem import bad_field
from llmservice_engine.codec.errors import PromptError
from llmservice_engine.core.constraint import Constraint
from llmservice_engine.core.sampling_params import SamplingParams

if TYPE_CHECKING:
    from llmservice_engine.codec.codec import Codec
    from llmservice_engine.core.outputs import EngineInfo

MAX_BIASES = 1024  # OpenAI's is 300
MAX_BAD_WORDS = 256
_BIAS = 100.0
_SEEDS = 2**63

TokenId = Annotated[int, Meta(ge=0)]


class Sampling(msgspec.Struct, kw_only=True):
    """Null equals absent for every field."""

    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, Meta(ge=0, le=1)] | None = None  # 0: the likeliest token alone
    top_k: Annotated[int, Meta(ge=-1)] | None = None  # -1 and 0: the whole vocabulary
    min_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    seed: Annotated[int, Meta(ge=-_SEEDS, le=_SEEDS - 1)] | None = None
    stop_token_ids: list[TokenId] | None = None  # besides the model's own end tokens
    ignore_eos: bool | None = None  # the model's own end tokens end nothing
    min_tokens: Annotated[int, Meta(ge=0)] | None = None
    presence_penalty: Annotated[float, Meta(ge=-2, le=2)] | None = None
    frequency_penalty: Annotated[float, Meta(ge=-2, le=2)] | None = None
    # vLLM has no upper bound; beyond these the division would overflow.
    repetition_penalty: Annotated[float, Meta(ge=0.01, le=100)] | None = None
    logit_bias: dict[str, float] | None = None  # by token id
    bad_words: list[str] | None = None


def params(
    request: Sampling, max_tokens: int, constraint: Constraint | None, codec: Codec, info: EngineInfo
) -> SamplingParams:
    """The request's word counts before the model's own defaults, those before the API's. Raises Problem."""
    defaults = codec.sampling_defaults
    top_k = _first(request.top_k, defaults.top_k, 0)
    ends = frozenset() if request.ignore_eos else codec.end_ids | info.eos_token_ids
    ends |= frozenset(request.stop_token_ids or ())
    return SamplingParams(
        max_tokens=max_tokens,
        temperature=_first(request.temperature, defaults.temperature, 1.0),
        top_p=_first(request.top_p, defaults.top_p, 1.0),
        top_k=int(top_k) if top_k >= 1 else None,
        min_p=_first(request.min_p, defaults.min_p, 0.0),
        seed=None if request.seed is None else request.seed % _SEEDS,
        stop_token_ids=frozenset(token for token in ends if token < info.vocabulary),
        min_tokens=_min_tokens(request, max_tokens, constraint),
        presence_penalty=_first(request.presence_penalty, 0.0),
        frequency_penalty=_first(request.frequency_penalty, 0.0),
        repetition_penalty=_first(request.repetition_penalty, defaults.repetition_penalty, 1.0),
        logit_bias=tuple(_biases(request.logit_bias or {}, info.vocabulary)),
        bad_words=_bad_words(request.bad_words or [], codec),
        constraint=constraint,
    )


def sibling_seed(seed: int | None, sibling: int) -> int | None:
    """Of the choices of one prompt each has a seed of its own, so that the same request gives the same choices."""
    return None if seed is None else (seed + sibling) % _SEEDS


def _first(*choices: float | None) -> float:
    return float(next(choice for choice in choices if choice is not None))


def _min_tokens(request: Sampling, max_tokens: int, constraint: Constraint | None) -> int:
    least = request.min_tokens or 0
    if least > max_tokens:
        raise bad_field(
            "min_tokens", f"min_tokens is {least}: it must be at most the {max_tokens} tokens of the answer"
        )
    if least and constraint is not None:
        raise bad_field(
            "min_tokens",
            "min_tokens and structured output exclude each other: the grammar says where it ends",
        )
    return least


def _biases(given: dict[str, float], vocabulary: int) -> Iterable[tuple[int, float]]:
    if len(given) > MAX_BIASES:
        raise bad_field("logit_bias", f"logit_bias has {len(given)} entries: at most {MAX_BIASES} are served")
    for key, bias in given.items():
        if not (key.isascii() and key.isdecimal() and len(key) < 10 and int(key) < vocabulary):
            raise bad_field(
                "logit_bias",
                f"logit_bias has the key {key[:40]!r}: keys are token ids from 0 to {vocabulary - 1}",
            )
        if not -_BIAS <= bias <= _BIAS:
            raise bad_field(
                "logit_bias", f"logit_bias of token {key} is {bias:g}: it must be from -100 to 100"
            )
        yield int(key), bias


def _bad_words(words: list[str], codec: Codec) -> tuple[tuple[int, ...], ...]:
    if len(words) > MAX_BAD_WORDS:
        raise bad_field("bad_words", f"bad_words has {len(words)} words: at most {MAX_BAD_WORDS} are served")
    if not all(word.strip() for word in words):
        raise bad_field("bad_words", "bad_words holds an empty word")
    try:
        return codec.banned_rows(words)
    except PromptError as error:
        raise bad_field(error.param, error.message) from None
