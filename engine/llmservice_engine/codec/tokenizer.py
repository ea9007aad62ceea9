"""The model's tokenizer, straight from ``tokenizer.json``: no hub, no torch, 0.1 s to load."""

from __future__ import annotations

import functools
import json
import threading
from collections.abc import Mapping, Sequence

import llguidance
import tokenizers

from llmservice_engine.codec import grammar
from llmservice_engine.codec.folder import TOKENIZER_FILE, ModelFolder
from llmservice_engine.core.errors import RequestError, WeightsIncomplete


class Tokenizer:
    """Text to ids and back. Thread-safe: it is never changed after it is loaded."""

    def __init__(
        self, backend: tokenizers.Tokenizer, special_tokens: Mapping[str, str], end_ids: frozenset[int]
    ) -> None:
        self._backend = backend
        self._grammar_lock = threading.Lock()
        self.special_tokens = special_tokens
        self.end_ids = end_ids  # ends of text: the union of what all of the folder's files say

    @classmethod
    def load(cls, folder: ModelFolder, visible: frozenset[str] = frozenset()) -> Tokenizer:
        """``visible``: special tokens that leave text all the same, since somebody reads them.

        Raises:
            WeightsIncomplete: ``tokenizer.json`` cannot be read.
        """
        try:
            backend = folder.backend or tokenizers.Tokenizer.from_file(str(folder.path / TOKENIZER_FILE))
        except Exception as error:  # noqa: BLE001 (the Rust side raises bare Exception)
            raise WeightsIncomplete(
                f"{folder.path / TOKENIZER_FILE} cannot be read: {error}", hint="copy the file again"
            ) from None
        backend = _shown(backend, visible)
        backend.no_truncation()  # a file saved after training may cut or pad
        backend.no_padding()
        special = folder.special_tokens()
        own_end = backend.token_to_id(special["eos_token"]) if "eos_token" in special else None
        ends = frozenset(folder.end_ids()) | (frozenset() if own_end is None else {own_end})
        return cls(backend, special, ends)

    @property
    def size(self) -> int:
        """How many ids it knows; they count from 0."""
        return self._backend.get_vocab_size(with_added_tokens=True)

    @property
    def for_grammars(self) -> llguidance.LLTokenizer:
        """Made when it is first asked for, which takes 0.3 s and more: not for the event loop.

        Raises:
            RequestError: a kind of tokenizer that grammars cannot be used with.
        """
        with self._grammar_lock:
            if isinstance(self._for_grammars, RequestError):
                raise self._for_grammars
            return self._for_grammars

    @functools.cached_property
    def _for_grammars(self) -> llguidance.LLTokenizer | RequestError:
        try:
            return grammar.tokenizer(self._backend.to_str(), self.size, sorted(self.end_ids))
        except RequestError as error:
            return error

    def raw(self, token: int) -> bytes:
        """A token's own bytes, which need be no text by themselves; none of an id that has no meaning."""
        if token >= self.size:
            return b""
        try:
            return self.for_grammars.decode_bytes([token])
        except RequestError:
            return self.decode_all([token]).encode()

    def encode(self, text: str, *, add_special_tokens: bool) -> tuple[int, ...]:
        """With ``add_special_tokens`` what the model expects around raw text (often one BOS) is added."""
        return tuple(self._backend.encode(text, add_special_tokens=add_special_tokens).ids)

    def spellings(self, ids: Sequence[int]) -> list[str]:
        """Ids that nobody has given a meaning are spelt as empty texts."""
        return [self._backend.id_to_token(i) or "" for i in ids]

    def decode_all(self, ids: Sequence[int]) -> str:
        """As :meth:`decode`, special tokens with their own text."""
        return self._backend.decode(ids, skip_special_tokens=False)

    def decode(self, ids: Sequence[int]) -> str:
        """Special tokens leave no text. Bytes that are no UTF-8 become U+FFFD."""
        return self._backend.decode(ids, skip_special_tokens=True)


def _shown(backend: tokenizers.Tokenizer, visible: frozenset[str]) -> tokenizers.Tokenizer:
    if not visible:
        return backend
    written = json.loads(backend.to_str())
    for token in written.get("added_tokens", ()):
        token["special"] = token["special"] and token["content"] not in visible
    return tokenizers.Tokenizer.from_str(json.dumps(written))
