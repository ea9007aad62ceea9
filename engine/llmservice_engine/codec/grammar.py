"""Grammars that outputs must match, over one model's tokens. The parsing is llguidance's (docs/adr/0005)."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal

import llguidance

from llmservice_engine.codec.errors import GrammarError
from llmservice_engine.core.constraint import Constraint
from llmservice_engine.core.errors import RequestError

MAX_BYTES = 256 * 1024  # of a grammar's text
COMPILE_SECONDS = 10.0
CACHED = 128  # compiled grammars
_COMPILERS = 2  # threads
_LIMITS = llguidance.LLParserLimits(verbose_errors=False)
_QUOTED = 300  # characters of the compiler's complaint


@dataclass(frozen=True, slots=True)
class GrammarText:
    """A grammar as a client wrote it."""

    kind: Literal["json_schema", "regex", "choice", "grammar"]
    text: str  # a JSON schema; a regular expression; a JSON list of texts; Lark or GBNF
    param: str  # the body's field that it came in


class Grammars:
    """Compiles grammars for one tokenizer, and keeps those used last. Thread-safe."""

    def __init__(self, tokenizer: llguidance.LLTokenizer, seconds: float = COMPILE_SECONDS) -> None:
        self._tokenizer = tokenizer
        self._seconds = seconds
        self._compilers = ThreadPoolExecutor(_COMPILERS, "grammar")
        self._cache: OrderedDict[tuple[str, str], Constraint] = OrderedDict()
        self._lock = threading.Lock()

    def compile(self, grammar: GrammarText) -> Constraint:
        """Takes from 1 ms to the time limit: not for the event loop.

        Raises:
            GrammarError: it is no grammar, or too large or too complex a one.
        """
        key = (grammar.kind, grammar.text)
        with self._lock:
            if key in self._cache:
                self._cache.move_to_end(key)
                return self._cache[key]
        size = len(grammar.text.encode())
        if size > MAX_BYTES:
            raise GrammarError(
                f"{grammar.param} has {size} bytes: at most {MAX_BYTES} are served", param=grammar.param
            )
        compiling = self._compilers.submit(self._compile, grammar)
        try:
            compiled = compiling.result(self._seconds)
        except TimeoutError:
            compiling.cancel()
            raise GrammarError(
                f"{grammar.param} took more than {self._seconds:g} s to compile: simplify it",
                param=grammar.param,
            ) from None
        with self._lock:
            self._cache[key] = compiled
            if len(self._cache) > CACHED:
                self._cache.popitem(last=False)
        return compiled

    def _compile(self, grammar: GrammarText) -> Constraint:
        """The first mask is computed too: it shows what is too complex, and warms what all sequences share."""
        try:
            form = _form(grammar)
        except (ValueError, RecursionError) as error:
            raise _refusal(grammar, str(error)) from None
        matcher = llguidance.LLMatcher(self._tokenizer, form, log_level=0, limits=_LIMITS)
        first = matcher.deep_copy()
        if not first.is_error():
            first.compute_bitmask()
        if first.is_error():
            raise _refusal(grammar, first.get_error())
        return _Compiled(matcher)


class _Compiled:
    """A grammar before its first token. Copies share what is expensive."""

    def __init__(self, fresh: llguidance.LLMatcher) -> None:
        self._fresh = fresh

    def start(self) -> _Progress:
        return _Progress(self._fresh.deep_copy())


class _Progress:
    """One output's way through a grammar. llguidance never raises: an error stays, and the next mask tells of it."""

    def __init__(self, matcher: llguidance.LLMatcher) -> None:
        self._matcher = matcher

    def mask(self) -> bytes:
        bits = self._matcher.compute_bitmask()
        if self._matcher.is_error():
            reason = self._matcher.get_error().removesuffix("<non-verbose/>").strip()[:_QUOTED]
            raise RequestError(f"the structured output cannot go on, simplify its grammar: {reason}")
        return bits

    def advance(self, token_id: int) -> None:
        self._matcher.consume_token(token_id)

    def rollback(self, tokens: int) -> None:
        self._matcher.rollback(tokens)

    @property
    def finished(self) -> bool:
        return self._matcher.is_stopped() and not self._matcher.is_error()


def _form(grammar: GrammarText) -> str:
    """What llguidance reads. Raises ValueError where it is no grammar."""
    if grammar.kind == "json_schema":
        # `oneOf` as `anyOf`: what typed clients write for a union is told apart by a constant anyway.
        return llguidance.LLMatcher.grammar_from_json_schema(grammar.text, defaults={"coerce_one_of": True})
    if grammar.kind == "choice":
        # One terminal, however many there are: rules of the grammar are limited to a few thousand.
        choices = " | ".join(json.dumps(one) for one in json.loads(grammar.text))
        return llguidance.LLMatcher.grammar_from_lark(f"start: CHOICE\nCHOICE: {choices}")
    return llguidance.grammar_from(grammar.kind, grammar.text)


def _refusal(grammar: GrammarText, reason: str) -> GrammarError:
    told = " ".join(reason.removesuffix("<non-verbose/>").split())[:_QUOTED]
    return GrammarError(f"{grammar.param} cannot be served as a {grammar.kind}: {told}", param=grammar.param)


def tokenizer(backend_json: str, size: int, end_ids: Sequence[int]) -> llguidance.LLTokenizer:
    """llguidance's view of a ``tokenizer.json``: each token's bytes, in a trie. Takes 0.3 s for 50,000 tokens.

    Raises:
        RequestError: a kind of tokenizer that it does not know.
    """
    try:
        return llguidance.LLTokenizer(backend_json, n_vocab=size, eos_token=list(end_ids) or None)
    except Exception as error:  # noqa: BLE001 (the Rust side raises bare Exception)
        raise RequestError(f"this model's tokenizer cannot be used with grammars: {error}") from None
