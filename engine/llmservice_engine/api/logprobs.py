"""Log probabilities in the shapes of OpenAI's two endpoints, and of vLLM's ``prompt_logprobs``.

JSON knows no infinity: what is less than ``FLOOR`` is told as ``FLOOR``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llmservice_engine.api.job import Scored

FLOOR = -9999.0

Object = dict[str, Any]


def chat(scored: Sequence[Scored]) -> Object:
    """The ``logprobs`` of a chat's choice."""
    content = [
        _entry(one.raw, one.logprob)
        | {"top_logprobs": [_entry(other.raw, other.logprob) for other in one.top]}
        for one in scored
    ]
    return {"content": content, "refusal": None}


def completion(scored: Sequence[Scored]) -> Object:
    """The ``logprobs`` of a raw completion's choice. The token itself is always among its ``top_logprobs``."""
    return {
        "tokens": [_text(one.raw) for one in scored],
        "token_logprobs": [_finite(one.logprob) for one in scored],
        "top_logprobs": [_named(one) for one in scored],
        "text_offset": [one.offset for one in scored],
    }


def prompt(scored: Sequence[Scored]) -> list[Object | None]:
    """By token id; null for the first token, before which there is nothing to tell it by."""
    return [None if one.logprob is None else _ranked(one) for one in scored]


def _entry(raw: bytes, logprob: float | None) -> Object:
    return {"token": raw.decode(errors="replace"), "logprob": _finite(logprob), "bytes": list(raw)}


def _named(one: Scored) -> Object | None:
    """Of several tokens with the same text the likeliest counts."""
    if one.logprob is None:
        return None
    named: Object = {}
    for other in one.top:
        named.setdefault(_text(other.raw), _finite(other.logprob))
    named.setdefault(_text(one.raw), _finite(one.logprob))
    return named


def _ranked(one: Scored) -> Object:
    """The token itself first, then the likeliest."""
    own = (one.token_id, one.raw, one.logprob, one.rank)
    best = [(other.token_id, other.raw, other.logprob, rank) for rank, other in enumerate(one.top, 1)]
    return {
        str(token): {"logprob": _finite(logprob), "rank": rank, "decoded_token": raw.decode(errors="replace")}
        for token, raw, logprob, rank in (own, *best)
    }


def _text(raw: bytes) -> str:
    """A token's text as the key of an object; bytes that are no text are spelt out, as OpenAI does."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in raw)


def _finite(logprob: float | None) -> float | None:
    return None if logprob is None else max(logprob, FLOOR)
