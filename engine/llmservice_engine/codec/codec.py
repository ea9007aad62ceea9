"""Prompts to tokens, tokens to text, for one model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from llmservice_engine.codec import folder, messages, template
from llmservice_engine.codec.detokenizer import TextStream
from llmservice_engine.codec.errors import NoChatTemplate, PromptError
from llmservice_engine.codec.folder import SamplingDefaults
from llmservice_engine.codec.template import ChatTemplate
from llmservice_engine.codec.tokenizer import Tokenizer


class Codec:
    """Thread-safe: long prompts are encoded off the event loop."""

    def __init__(
        self, tokenizer: Tokenizer, chat_template: ChatTemplate | None, sampling_defaults: SamplingDefaults
    ) -> None:
        self._tokenizer = tokenizer
        self._template = chat_template
        self.sampling_defaults = sampling_defaults

    @classmethod
    def load(cls, model: str, chat_template: str | None = None) -> Codec:
        """Read the folder ``model``; ``chat_template`` (a path or the text) replaces the model's own.

        Raises:
            ModelNotFound, WeightsIncomplete, InvalidSettings
        """
        files = folder.read(Path(model))
        tokenizer = Tokenizer.load(files)
        source = template.source(chat_template, files)
        compiled = None if source is None else ChatTemplate(source, tokenizer.special_tokens)
        return cls(tokenizer, compiled, files.sampling_defaults())

    @property
    def end_ids(self) -> frozenset[int]:
        """Tokens that end a text."""
        return self._tokenizer.end_ids

    @property
    def vocabulary(self) -> int:
        return self._tokenizer.size

    @property
    def has_chat_template(self) -> bool:
        return self._template is not None

    def chat_tokens(self, conversation: Sequence[object]) -> tuple[int, ...]:
        """A conversation's prompt. The template writes every special token itself, so none is added: one BOS.

        Raises:
            PromptError: a message that cannot be used, or a template that refuses it.
        """
        known = messages.normalise(conversation)
        if self._template is None:
            raise NoChatTemplate
        return self._encode(self._template.render(known), "messages", add_special_tokens=False)

    def text_tokens(self, text: str) -> tuple[int, ...]:
        """A raw text's prompt, with what the tokenizer puts around a text (often one BOS).

        Raises:
            PromptError: nothing is left to start from.
        """
        ids = self._encode(text, "prompt", add_special_tokens=True)
        if not ids:
            raise PromptError(
                "prompt is empty, and this model's tokenizer adds no start token", param="prompt"
            )
        return ids

    def text_stream(self, stops: Sequence[str] = ()) -> TextStream:
        """For one answer: token by token to text that is safe to send."""
        return TextStream(self._tokenizer, stops)

    def _encode(self, text: str, param: str, *, add_special_tokens: bool) -> tuple[int, ...]:
        try:
            return self._tokenizer.encode(text, add_special_tokens=add_special_tokens)
        except (TypeError, UnicodeEncodeError):  # tokenizers raises the former
            raise PromptError(
                f"{param} holds half of a surrogate pair, which is no text", param=param
            ) from None
