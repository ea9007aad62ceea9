"""What a format of tool calls is."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass

from llmservice_engine.codec.reading import Machine, Text


def call_id() -> str:
    return f"call_{uuid.uuid4().hex[:24]}"


@dataclass(frozen=True, slots=True)
class ToolFormat:
    """One way of writing calls.

    ``machine`` reads one answer, given the names of the request's tools: where no marker tells a call from other
    text, only a call of one of these is one.
    """

    name: str
    machine: Callable[[Text, frozenset[str]], Machine]
    markers: tuple[
        str, ...
    ]  # that the tokenizer must not swallow, though it may hold them for special tokens
    new_id: Callable[[], str] = call_id
