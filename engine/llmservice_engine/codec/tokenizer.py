"""The model's tokenizer, straight from ``tokenizer.json``: no hub, no torch, 0.1 s to load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import tokenizers

from llmservice_engine.codec.folder import TOKENIZER_FILE, ModelFolder
from llmservice_engine.core.errors import WeightsIncomplete


class Tokenizer:
    """Text to ids and back. Thread-safe: it is never changed after it is loaded."""

    def __init__(
        self, backend: tokenizers.Tokenizer, special_tokens: Mapping[str, str], end_ids: frozenset[int]
    ) -> None:
        self._backend = backend
        self.special_tokens = special_tokens
        self.end_ids = end_ids  # ends of text: the union of what all of the folder's files say

    @classmethod
    def load(cls, folder: ModelFolder) -> Tokenizer:
        """Raises WeightsIncomplete where ``tokenizer.json`` cannot be read."""
        try:
            backend = folder.backend or tokenizers.Tokenizer.from_file(str(folder.path / TOKENIZER_FILE))
        except Exception as error:  # noqa: BLE001 (the Rust side raises bare Exception)
            raise WeightsIncomplete(
                f"{folder.path / TOKENIZER_FILE} cannot be read: {error}", hint="copy the file again"
            ) from None
        backend.no_truncation()  # a file saved after training may cut or pad
        backend.no_padding()
        special = folder.special_tokens()
        own_end = backend.token_to_id(special["eos_token"]) if "eos_token" in special else None
        ends = frozenset(folder.end_ids()) | (frozenset() if own_end is None else {own_end})
        return cls(backend, special, ends)

    @property
    def size(self) -> int:
        return self._backend.get_vocab_size(with_added_tokens=True)

    def encode(self, text: str, *, add_special_tokens: bool) -> tuple[int, ...]:
        """With ``add_special_tokens`` what the model expects around raw text (often one BOS) is added."""
        return tuple(self._backend.encode(text, add_special_tokens=add_special_tokens).ids)

    def decode(self, ids: Sequence[int]) -> str:
        """Special tokens leave no text. Bytes that are no UTF-8 become U+FFFD."""
        return self._backend.decode(ids, skip_special_tokens=True)
