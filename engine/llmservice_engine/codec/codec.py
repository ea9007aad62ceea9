"""Prompts to tokens, tokens to text, for one model."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llmservice_engine.codec import folder, messages, template
from llmservice_engine.codec.detokenizer import PLAIN as PLAIN_TEXT
from llmservice_engine.codec.detokenizer import TextRules, TextStream
from llmservice_engine.codec.errors import NoChatTemplate, PromptError, TemplateRefused
from llmservice_engine.codec.folder import SamplingDefaults
from llmservice_engine.codec.grammar import Grammars
from llmservice_engine.codec.messages import Message
from llmservice_engine.codec.reasoning import think
from llmservice_engine.codec.template import PLAIN, ChatTemplate, PromptOptions
from llmservice_engine.codec.tokenizer import Tokenizer
from llmservice_engine.codec.tools.interface import ToolFormat
from llmservice_engine.core.errors import InvalidSettings, RequestError


@dataclass(frozen=True, slots=True)
class ChatPrompt:
    ids: tuple[int, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Formats:
    """How this model marks calls and reasoning."""

    tools: ToolFormat | None = None
    reasoning: str | None = None  # a value of --reasoning-parser

    @property
    def markers(self) -> frozenset[str]:
        """Texts that must reach the readers, even if the tokenizer holds them for special tokens."""
        return frozenset(
            (*(self.tools.markers if self.tools else ()), *(think.MARKERS if self.reasoning else ()))
        )


NO_FORMATS = Formats()


class Codec:
    """Thread-safe: long prompts are encoded off the event loop."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        chat_templates: Mapping[str, ChatTemplate],
        sampling_defaults: SamplingDefaults,
        formats: Formats = NO_FORMATS,
    ) -> None:
        self._tokenizer = tokenizer
        self._templates = chat_templates
        self.sampling_defaults = sampling_defaults
        self.formats = formats

    @classmethod
    def load(
        cls,
        model: str,
        chat_template: str | None = None,
        *,
        formats: Formats = NO_FORMATS,
        generation_config: str = "auto",
        override_generation_config: Mapping[str, Any] | None = None,
    ) -> Codec:
        """Read the folder ``model``; ``chat_template`` (a path or the text) replaces the model's own.

        Raises:
            ModelNotFound, WeightsIncomplete, InvalidSettings
        """
        files = folder.read(Path(model))
        tokenizer = Tokenizer.load(files, formats.markers)
        compiled = {
            name: ChatTemplate(source, tokenizer.special_tokens)
            for name, source in template.sources(chat_template, files).items()
        }
        defaults = folder.sampling_defaults(files, generation_config, override_generation_config or {})
        return cls(tokenizer, compiled, defaults, formats)

    @property
    def end_ids(self) -> frozenset[int]:
        """Tokens that end a text."""
        return self._tokenizer.end_ids

    @property
    def vocabulary(self) -> int:
        """How many ids the tokenizer knows. A model's embedding may have more of them, and should not have fewer."""
        return self._tokenizer.size

    @property
    def has_chat_template(self) -> bool:
        return "default" in self._templates

    def chat_prompt(self, conversation: Sequence[object], options: PromptOptions = PLAIN) -> ChatPrompt:
        """A conversation's prompt. The template writes every special token itself, so none is added: one BOS.

        Raises:
            PromptError: a message that cannot be used, or a template that refuses it.
        """
        known = messages.normalise(conversation)
        if options.continue_final_message and known[-1]["role"] != "assistant":
            raise PromptError(
                "continue_final_message: the final message must be the assistant's, to be continued",
                param="continue_final_message",
            )
        text = self._rendered(known, options)
        ids = self._encode(text, "messages", add_special_tokens=options.add_special_tokens)
        return ChatPrompt(ids, text)

    def chat_tokens(self, conversation: Sequence[object]) -> tuple[int, ...]:
        """As :meth:`chat_prompt`, the tokens only."""
        return self.chat_prompt(conversation).ids

    def raw_tokens(self, text: str, *, add_special_tokens: bool) -> tuple[int, ...]:
        """A text's tokens, none of them if it is empty. Raises PromptError where it is no text."""
        return self._encode(text, "prompt", add_special_tokens=add_special_tokens)

    def raw_text(self, ids: Sequence[int]) -> str:
        """The text of tokens, special ones too. The caller has made sure that the tokenizer knows them."""
        return self._tokenizer.decode_all(ids)

    def token_strings(self, ids: Sequence[int]) -> list[str]:
        """The vocabulary's own spelling of tokens, in which a space may be another sign."""
        return self._tokenizer.spellings(ids)

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

    def text_stream(self, rules: TextRules = PLAIN_TEXT, prompt: Sequence[int] = ()) -> TextStream:
        """For one answer: token by token to text that is safe to send."""
        return TextStream(self._tokenizer, rules, prompt)

    def banned_rows(self, words: Sequence[str]) -> tuple[tuple[int, ...], ...]:
        """Tokens of each word, at the start of a text and after a space.

        Raises:
            PromptError: a word that is no text.
        """
        spelt = (spelling for word in words for spelling in (word, " " + word.lstrip()))
        rows = (self._encode(spelling, "bad_words", add_special_tokens=False) for spelling in spelt)
        return tuple(dict.fromkeys(row for row in rows if row))

    def spans(self, ids: Sequence[int], rules: TextRules = PLAIN_TEXT) -> tuple[str, tuple[int, ...]]:
        """A row of tokens as text, and where in it each token's own begins."""
        text = TextStream(self._tokenizer, TextRules(skip_special=rules.skip_special))
        pieces, offsets = [], []
        for token in ids:
            offsets.append(text.length)
            pieces.append(text.push(token))
        return "".join(pieces) + text.finish(), tuple(offsets)

    @functools.cached_property
    def grammars(self) -> Grammars:
        """Raises RequestError where grammars cannot be used with this tokenizer. Not for the event loop, at first."""
        return Grammars(self._tokenizer.for_grammars)

    def prepare_raw(self) -> None:
        """Make ready what each token's bytes are read from. Not for the event loop."""
        with suppress(RequestError):
            _ = self._tokenizer.for_grammars

    def _rendered(self, known: list[Message], options: PromptOptions) -> str:
        template = self._template(options)
        try:
            return template.render(known, options)
        except TemplateRefused:
            repaired = messages.with_arguments_as_objects(known)
            if repaired is None:
                raise
            return template.render(repaired, options)

    def _template(self, options: PromptOptions) -> ChatTemplate:
        if options.template is not None:
            try:
                return ChatTemplate(options.template, self._tokenizer.special_tokens)
            except InvalidSettings as error:
                raise PromptError(error.message, param="chat_template") from None
        if options.tools and "tool_use" in self._templates:
            return self._templates["tool_use"]
        if not self.has_chat_template:
            raise NoChatTemplate
        return self._templates["default"]

    def _encode(self, text: str, param: str, *, add_special_tokens: bool) -> tuple[int, ...]:
        try:
            return self._tokenizer.encode(text, add_special_tokens=add_special_tokens)
        except (TypeError, UnicodeEncodeError):  # tokenizers raises the former
            raise PromptError(
                f"{param} holds half of a surrogate pair, which is no text", param=param
            ) from None
