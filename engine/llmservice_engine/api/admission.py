"""From a typed request to prompts and sampling that the engine can serve, or a 4xx that says why not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from llmservice_engine.api import problem, sampling, structured
from llmservice_engine.api.job import NOTHING, Choice, Echo, Report
from llmservice_engine.api.schema import ChatRequest, CompletionRequest, Generate
from llmservice_engine.codec.codec import Codec
from llmservice_engine.codec.detokenizer import TextRules
from llmservice_engine.codec.errors import PromptError
from llmservice_engine.core.constraint import Constraint
from llmservice_engine.core.errors import RequestTooLong
from llmservice_engine.core.sampling_params import SamplingParams

if TYPE_CHECKING:
    from llmservice_engine.engine import Engine

COMPLETION_TOKENS = 16  # OpenAI's default for /v1/completions
MAX_PROMPTS = 2048  # OpenAI's limit
MAX_SEQUENCES = 2048  # of one request


@dataclass(frozen=True, slots=True)
class Admitted:
    """What the engine will be asked: ``siblings`` sequences a prompt, one after the other."""

    prompts: tuple[tuple[int, ...], ...]  # one a sequence; siblings share it
    params: tuple[SamplingParams, ...]
    rules: TextRules
    siblings: int = 1
    priority: int = 0
    report: Report = NOTHING
    echoes: tuple[Echo | None, ...] = ()  # one a sequence


def choices(answer_id: str, codec: Codec, admitted: Admitted) -> list[Choice]:
    return [
        Choice(
            index,
            f"{answer_id}-{index}",
            prompt,
            params,
            codec.text_stream(admitted.rules, prompt),
            sibling=index % admitted.siblings,
            priority=admitted.priority,
            report=admitted.report,
            echo=echo,
        )
        for index, (prompt, params, echo) in enumerate(
            zip(admitted.prompts, admitted.params, admitted.echoes, strict=True)
        )
    ]


def chat(
    request: ChatRequest,
    prompt: tuple[int, ...],
    codec: Codec,
    engine: Engine,
    constraint: Constraint | None = None,
) -> Admitted:
    """``constraint``: what the answer must match besides what the request's own fields say. Raises Problem."""
    return _admit(request, (prompt,), codec, engine, constraint)


def completion(request: CompletionRequest, codec: Codec, engine: Engine) -> Admitted:
    """Raises Problem."""
    if request.prompt is None:
        raise problem.bad_field("prompt", "prompt is missing: give a text or token ids")
    return _admit(request, _token_prompts(request.prompt, "prompt", codec), codec, engine)


def pooled(given: str | list[object] | None, codec: Codec, engine: Engine) -> tuple[tuple[int, ...], ...]:
    """The prompts of ``input`` whose vectors are wanted. Raises Problem."""
    if given is None:
        raise problem.bad_field("input", "input is missing: give a text or token ids")
    prompts = _token_prompts(given, "input", codec)
    for prompt in prompts:
        _check_range(prompt, engine.info.vocabulary, "input")
        _check_length(len(prompt), 0, "input", engine)
    return prompts


def _token_prompts(given: str | Sequence[object], at: str, codec: Codec) -> tuple[tuple[int, ...], ...]:
    return tuple(
        _tokens(prompt, at, codec) if isinstance(prompt, str) else tuple(prompt)
        for prompt in _prompts(given, at)
    )


def _tokens(text: str, at: str, codec: Codec) -> tuple[int, ...]:
    try:
        return codec.text_tokens(text)
    except PromptError as error:
        raise problem.bad_field(at, error.message.replace(error.param, at, 1)) from None


def _prompts(prompt: str | Sequence[object], at: str) -> Sequence[str | list[int]]:
    """The four shapes of ``prompt`` as one: a text, token ids, a list of texts, a list of token-id lists."""
    if isinstance(prompt, str):
        return [prompt]
    if not prompt:
        raise problem.bad_field(at, f"{at} is empty: give a text or token ids")
    if all(isinstance(item, str) for item in prompt):
        found: list[str | list[int]] = [item for item in prompt if isinstance(item, str)]
    elif all(isinstance(item, list) for item in prompt):
        found = [_ids(item, f"{at}[{index}]") for index, item in enumerate(prompt)]
    else:
        return [_ids(prompt, at)]
    if len(found) > MAX_PROMPTS:
        raise problem.bad_field(at, f"{at} is a list of {len(found)}: at most {MAX_PROMPTS} are served")
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
    codec: Codec,
    engine: Engine,
    constraint: Constraint | None = None,
) -> Admitted:
    siblings = request.sequences()
    if len(prompts) * siblings > MAX_SEQUENCES:
        raise problem.bad_field(
            "n",
            f"{len(prompts)} prompts of {siblings} answers each: at most {MAX_SEQUENCES} answers are served",
        )
    report = _report(request, codec, engine)
    rules = TextRules(
        stops=request.stops(),
        min_tokens=request.min_tokens or 0,
        include_stop=bool(request.include_stop_str_in_output),
        skip_special=request.skip_special_tokens is not False,
        continues=isinstance(request, CompletionRequest),
    )
    constraint = _constraint(request, constraint, codec)
    found: list[tuple[tuple[int, ...], SamplingParams, Echo | None]] = []
    for whole in prompts:
        prompt, max_tokens = _fit(request, whole, engine)
        params = sampling.params(request, max_tokens, constraint, codec, engine.info)
        told, prompt_told = _asked(request, report, siblings)
        params = replace(params, logprobs=told, prompt_logprobs=prompt_told)
        echo = Echo(*codec.spans(prompt, rules)) if request.echoes else None
        for sibling in range(siblings):
            seed = sampling.sibling_seed(params.seed, sibling)
            found.append((prompt, replace(params, seed=seed), echo))
    all_prompts, all_params, echoes = zip(*found, strict=True)
    return Admitted(all_prompts, all_params, rules, siblings, request.priority or 0, report, echoes)


def _constraint(request: Generate, other: Constraint | None, codec: Codec) -> Constraint | None:
    own = structured.constraint(request, codec)
    if own is not None and other is not None:
        raise problem.bad_field("tool_choice", "a forced tool call and structured output exclude each other")
    return own or other


def _fit(request: Generate, prompt: tuple[int, ...], engine: Engine) -> tuple[tuple[int, ...], int]:
    """The prompt, cut where the request says so, and how many tokens its answer may have."""
    at = "messages" if isinstance(request, ChatRequest) else "prompt"
    info, wanted = engine.info, request.wanted_tokens()
    limit = min(info.max_model_len, info.blocks * info.block_size)
    default = COMPLETION_TOKENS if isinstance(request, CompletionRequest) else None
    keep = request.truncate_prompt_tokens
    if keep is not None:
        fitting = max(1, limit - (wanted if wanted is not None else default or 1))
        keep = fitting if keep == -1 else keep
        if keep == 0:
            raise problem.bad_field(
                "truncate_prompt_tokens",
                "truncate_prompt_tokens is 0: keep at least 1 token, or -1 for what fits",
            )
        prompt = prompt[-keep:]
    _check_range(prompt, info.vocabulary, "prompt")
    room = max(1, limit - len(prompt))
    max_tokens = wanted if wanted is not None else min(room, default or room)
    _check_length(len(prompt), max_tokens, at, engine)
    return prompt, max_tokens


def _report(request: Generate, codec: Codec, engine: Engine) -> Report:
    """What is asked about the likelihood of tokens, within this server's limit."""
    report = Report(request.wanted_logprobs(), request.prompt_logprobs)
    named = "top_logprobs" if isinstance(request, ChatRequest) else "logprobs"
    for param, count in ((named, report.logprobs), ("prompt_logprobs", report.prompt_logprobs)):
        if count is not None and count > engine.max_logprobs:
            raise problem.bad_field(
                param, f"{param} is {count}: at most {engine.max_logprobs} are served (--max-logprobs)"
            )
    if report != NOTHING:
        codec.prepare_raw()
    return report


def _asked(request: Generate, report: Report, siblings: int) -> tuple[int | None, int | None]:
    """What the engine is to report of answer and prompt: for the client, and to find the best of several answers."""
    ranked = siblings > (request.n or 1)
    prompt = [report.prompt_logprobs, report.logprobs if request.echoes else None]
    return (
        0 if ranked and report.logprobs is None else report.logprobs,
        max((count for count in prompt if count is not None), default=None),
    )


def _check_length(prompt_tokens: int, max_tokens: int, at: str, engine: Engine) -> None:
    try:
        engine.check(prompt_tokens, max_tokens)
    except RequestTooLong as error:
        message = f"{error.message}; {error.hint}" if error.hint else error.message
        raise problem.bad_field(at, message, code="context_length_exceeded") from None


def _check_range(prompt: Sequence[int], vocabulary: int, at: str) -> None:
    low, high = min(prompt), max(prompt)
    if low < 0 or high >= vocabulary:
        bad = low if low < 0 else high
        raise problem.bad_field(at, f"token id {bad} is out of range: the model knows 0 to {vocabulary - 1}")
