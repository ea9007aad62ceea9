"""The bodies that clients send, typed. Null equals absent; bounds are OpenAI's (and vLLM's for its extensions)."""

from __future__ import annotations

import re
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from llmservice_engine.api.conversation import Messages
from llmservice_engine.api.problem import Problem, bad_field
from llmservice_engine.api.structured import Structured
from llmservice_engine.api.tool_use import Choice, Tool

MAX_STOPS = 4
MAX_CHOICES = 128

Count = Annotated[int, Meta(ge=1)]


_TOKENS: dict[str, Any] = {"type": "array", "minItems": 1, "items": {"type": "integer", "minimum": 0}}
_TEXT: dict[str, Any] = {"type": "string", "minLength": 1}
# A text, token ids, or a list of either: what admission checks, and names more exactly than a schema could.
Prompts = (
    Annotated[str, Meta(extra_json_schema={"minLength": 1})]
    | Annotated[
        list[Any],
        Meta(
            extra_json_schema={
                "minItems": 1,
                "anyOf": [{"items": one} for one in (_TOKENS["items"], _TEXT, _TOKENS)],
            }
        ),
    ]
)


class StreamOptions(msgspec.Struct, kw_only=True):
    include_usage: bool | None = None
    continuous_usage_stats: bool | None = (
        None  # vLLM's: with include_usage, every chunk tells the usage so far
    )


class Generate(Structured, kw_only=True):  # a struct can have one base with fields
    """What both endpoints share."""

    model: str | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: Count | None = None
    stop: str | list[str] | None = None
    include_stop_str_in_output: bool | None = None
    skip_special_tokens: bool | None = None
    n: Annotated[int, Meta(ge=1, le=MAX_CHOICES)] | None = None
    prompt_logprobs: Annotated[int, Meta(ge=0)] | None = None
    truncate_prompt_tokens: Annotated[int, Meta(ge=-1)] | None = None  # -1: to what leaves room for an answer
    priority: Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)] | None = None  # lower is sooner

    def stops(self) -> tuple[str, ...]:
        """Stop strings; a string equals a list of one, null and [] mean none."""
        stops = (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())
        if len(stops) > MAX_STOPS:
            raise bad_field("stop", f"stop has {len(stops)} strings: at most {MAX_STOPS} are served")
        if "" in stops:
            raise bad_field("stop", "stop holds an empty string: every text would end at once")
        return stops

    def wanted_tokens(self) -> int | None:
        return self.max_tokens

    def wanted_logprobs(self) -> int | None:
        """Likeliest tokens to report beside each token of the answer; None: report nothing."""
        raise NotImplementedError

    @property
    def echoes(self) -> bool:
        """The prompt is told as the beginning of its answer."""
        return False

    def sequences(self) -> int:
        """How many answers to each prompt are generated, of which ``n`` are told."""
        return self.n or 1


class ChatRequest(Generate, kw_only=True):
    messages: Messages | None = None
    tools: list[Tool] | None = None
    tool_choice: Choice | None = None
    parallel_tool_calls: bool | None = None
    include_reasoning: bool | None = None
    chat_template: str | None = None  # with --trust-request-chat-template only
    chat_template_kwargs: dict[str, Any] | None = None
    documents: list[dict[str, Any]] | None = None
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None
    add_special_tokens: bool | None = None
    max_completion_tokens: Count | None = None  # the newer name: it wins
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Meta(ge=0)] | None = None

    def wanted_tokens(self) -> int | None:
        return self.max_tokens if self.max_completion_tokens is None else self.max_completion_tokens

    def wanted_logprobs(self) -> int | None:
        if self.top_logprobs and not self.logprobs:
            raise bad_field("top_logprobs", "top_logprobs is only allowed with logprobs: true")
        return (self.top_logprobs or 0) if self.logprobs else None


class CompletionRequest(Generate, kw_only=True):
    prompt: Prompts | None = None
    max_tokens: Annotated[int, Meta(ge=0)] | None = None  # 0: with echo, only the prompt is told about
    logprobs: Annotated[int, Meta(ge=0)] | None = None
    echo: bool | None = None
    best_of: Annotated[int, Meta(ge=1, le=MAX_CHOICES)] | None = None

    def wanted_logprobs(self) -> int | None:
        return self.logprobs

    @property
    def echoes(self) -> bool:
        return bool(self.echo)

    def sequences(self) -> int:
        told = self.n or 1
        if self.best_of is None or self.best_of == told:
            return told
        if self.best_of < told:
            raise bad_field("best_of", f"best_of is {self.best_of}: it must be at least n, which is {told}")
        if self.stream:
            raise bad_field(
                "best_of", "best_of above n cannot be streamed: the best is known at the end only"
            )
        return self.best_of


Body = TypeVar("Body", bound=msgspec.Struct)
Request = TypeVar("Request", bound=Generate)


def decode(body: bytes) -> dict[str, Any]:
    """The JSON object in a request's body, else a 400."""
    try:
        found = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        reason = "it is empty" if not body.strip() else str(error)
        raise Problem(400, f"the body is not JSON: {reason}", code="invalid_json") from None
    if not isinstance(found, dict):
        raise Problem(400, f"the body must be a JSON object, not {_json_name(found)}", code="invalid_json")
    return found


def convert(body: dict[str, Any], kind: type[Request]) -> Request:
    """The typed request of an endpoint that generates, else a 400 that names the field."""
    request = typed(body, kind)
    if request.stream_options is not None and not request.stream:
        raise bad_field("stream_options", "stream_options is only allowed with stream: true")
    if request.prompt_logprobs is not None and request.stream:
        raise bad_field("prompt_logprobs", "prompt_logprobs cannot be streamed: leave stream out")
    return request


def typed(body: dict[str, Any], kind: type[Body]) -> Body:
    """The typed body, else a 400 that names the field."""
    try:
        return msgspec.convert(body, kind)
    except msgspec.ValidationError as error:
        reason, _, path = str(error).partition(" - at `$")
        param = path.rstrip("`").lstrip(".")
        wanted = re.sub(r"`(.*?)`", r"\1", reason)
        raise bad_field(param, f"{param}: {wanted[:1].lower()}{wanted[1:]}") from None


def _json_name(value: object) -> str:
    names = {type(None): "null", bool: "a boolean", str: "a string", list: "an array"}
    return names.get(type(value), "a number")
