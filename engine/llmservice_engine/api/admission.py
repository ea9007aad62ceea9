"""From a typed request to prompts and sampling that the engine can serve, or a 4xx that says why not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from llmservice_engine.api import problem
from llmservice_engine.api.schema import ChatRequest, CompletionRequest, Generate
from llmservice_engine.codec.codec import Codec
from llmservice_engine.codec.errors import PromptError
from llmservice_engine.core.errors import RequestTooLong
from llmservice_engine.core.outputs import EngineInfo
from llmservice_engine.core.sampling_params import SamplingParams

if TYPE_CHECKING:
    from llmservice_engine.engine import Engine

COMPLETION_TOKENS = 16  # OpenAI's default for /v1/completions
MAX_PROMPTS = 2048  # OpenAI's limit


@dataclass(frozen=True, slots=True)
class Admitted:
    """What the engine will be asked: one sequence a prompt."""

    prompts: tuple[tuple[int, ...], ...]
    params: tuple[SamplingParams, ...]
    stops: tuple[str, ...]


def chat(request: ChatRequest, codec: Codec, engine: Engine) -> Admitted:
    """Raises Problem."""
    if request.messages is None:
        raise problem.bad_field("messages", "messages is missing: give at least one message")
    prompt = _tokens(partial(codec.chat_tokens, request.messages))
    return _admit(request, (prompt,), None, codec, engine)


def completion(request: CompletionRequest, codec: Codec, engine: Engine) -> Admitted:
    """Raises Problem."""
    if request.prompt is None:
        raise problem.bad_field("prompt", "prompt is missing: give a text or token ids")
    prompts = tuple(
        _tokens(partial(codec.text_tokens, prompt)) if isinstance(prompt, str) else tuple(prompt)
        for prompt in _prompts(request.prompt)
    )
    return _admit(request, prompts, COMPLETION_TOKENS, codec, engine)


def _tokens(encode: Callable[[], tuple[int, ...]]) -> tuple[int, ...]:
    try:
        return encode()
    except PromptError as error:
        raise problem.bad_field(error.param, error.message) from None


def _prompts(prompt: str | Sequence[object]) -> Sequence[str | list[int]]:
    """The four shapes of ``prompt`` as one: a text, token ids, a list of texts, a list of token-id lists."""
    if isinstance(prompt, str):
        return [prompt]
    if not prompt:
        raise problem.bad_field("prompt", "prompt is empty: give a text or token ids")
    if all(isinstance(item, str) for item in prompt):
        found: list[str | list[int]] = [item for item in prompt if isinstance(item, str)]
    elif all(isinstance(item, list) for item in prompt):
        found = [_ids(item, f"prompt[{index}]") for index, item in enumerate(prompt)]
    else:
        return [_ids(prompt, "prompt")]
    if len(found) > MAX_PROMPTS:
        raise problem.bad_field(
            "prompt", f"prompt is a list of {len(found)}: at most {MAX_PROMPTS} are served"
        )
    return found


def _ids(items: object, at: str) -> list[int]:
    if not isinstance(items, Sequence) or not items:
        raise problem.bad_field(at, f"{at} is empty: give at least one token id")
    for index, item in enumerate(items):
        if type(item) is not int:  # a bool is an int to Python
            raise problem.bad_field(at, f"{at}[{index}] must be a token id, that is an integer")
    return list(items)


def _admit(
    request: Generate,
    prompts: tuple[tuple[int, ...], ...],
    default_tokens: int | None,
    codec: Codec,
    engine: Engine,
) -> Admitted:
    info = engine.info
    for prompt in prompts:
        _check_range(prompt, info.vocabulary)
    wanted = request.wanted_tokens()
    params = []
    for prompt in prompts:
        room = max(1, min(info.max_model_len, info.blocks * info.block_size) - len(prompt))
        tokens = wanted if wanted is not None else min(room, default_tokens or room)
        try:
            engine.check(len(prompt), tokens)
        except RequestTooLong as error:
            message = f"{error.message}; {error.hint}" if error.hint else error.message
            param = "messages" if isinstance(request, ChatRequest) else "prompt"
            raise problem.bad_field(param, message, code="context_length_exceeded") from None
        params.append(_sampling(request, tokens, codec, info))
    return Admitted(prompts, tuple(params), request.stops())


def _check_range(prompt: Sequence[int], vocabulary: int) -> None:
    low, high = min(prompt), max(prompt)
    if low < 0 or high >= vocabulary:
        bad = low if low < 0 else high
        raise problem.bad_field(
            "prompt", f"token id {bad} is out of range: the model knows 0 to {vocabulary - 1}"
        )


def _sampling(request: Generate, max_tokens: int, codec: Codec, info: EngineInfo) -> SamplingParams:
    """The request's word counts before the model's own defaults, those before the API's."""
    defaults = codec.sampling_defaults
    top_k = _first(request.top_k, defaults.top_k, 0)
    return SamplingParams(
        max_tokens=max_tokens,
        temperature=float(_first(request.temperature, defaults.temperature, 1.0)),
        top_p=float(_first(request.top_p, defaults.top_p, 1.0)),
        top_k=int(top_k) if top_k >= 1 else None,
        seed=None if request.seed is None else request.seed & (2**63 - 1),
        stop_token_ids=codec.end_ids | info.eos_token_ids | frozenset(request.stop_token_ids or ()),
        ignore_eos=bool(request.ignore_eos),
    )


def _first(*choices: float | None) -> float:
    return next(choice for choice in choices if choice is not None)
