"""The bodies that clients send, typed. Null equals absent; bounds are OpenAI's (and vLLM's for its extensions)."""

from __future__ import annotations

import re
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from llmservice_engine.api.problem import Problem, bad_field

MAX_STOPS = 4

Count = Annotated[int, Meta(ge=1)]
TokenId = Annotated[int, Meta(ge=0)]


class StreamOptions(msgspec.Struct, kw_only=True):
    include_usage: bool | None = None


class Generate(msgspec.Struct, kw_only=True):
    """What both endpoints share. ``top_k``, ``stop_token_ids`` and ``ignore_eos`` are vLLM's extensions."""

    model: str | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, Meta(gt=0, le=1)] | None = None
    top_k: Annotated[int, Meta(ge=-1)] | None = None  # -1 and 0: the whole vocabulary
    seed: Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] | None = None
    max_tokens: Count | None = None
    stop: str | list[str] | None = None
    stop_token_ids: list[TokenId] | None = None
    ignore_eos: bool | None = None
    n: Annotated[int, Meta(ge=1, le=128)] | None = None

    def stops(self) -> tuple[str, ...]:
        """Stop strings; a string equals a list of one, null and [] mean none."""
        stops = (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())
        if len(stops) > MAX_STOPS:
            raise bad_field("stop", f"stop has {len(stops)} strings: at most {MAX_STOPS} are served")
        if "" in stops:
            raise bad_field("stop", "stop holds an empty string: every text would end at once")
        return stops

    @property
    def wants_usage(self) -> bool:
        """The stream is to end with a chunk of usage."""
        return bool(self.stream_options and self.stream_options.include_usage)

    def wanted_tokens(self) -> int | None:
        return self.max_tokens


class ChatRequest(Generate, kw_only=True):
    messages: list[Any] | None = None
    max_completion_tokens: Count | None = None  # the newer name: it wins

    def wanted_tokens(self) -> int | None:
        return self.max_tokens if self.max_completion_tokens is None else self.max_completion_tokens


class CompletionRequest(Generate, kw_only=True):
    prompt: str | list[Any] | None = None  # a text, token ids, or a list of either


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
    """The typed request, else a 400 that names the field."""
    try:
        request = msgspec.convert(body, kind)
    except msgspec.ValidationError as error:
        reason, _, path = str(error).partition(" - at `$")
        param = path.rstrip("`").lstrip(".")
        wanted = re.sub(r"`(.*?)`", r"\1", reason)
        raise bad_field(param, f"{param}: {wanted[:1].lower()}{wanted[1:]}") from None
    if request.stream_options is not None and not request.stream:
        raise bad_field("stream_options", "stream_options is only allowed with stream: true")
    return request


def _json_name(value: object) -> str:
    names = {type(None): "null", bool: "a boolean", str: "a string", list: "an array"}
    return names.get(type(value), "a number")
