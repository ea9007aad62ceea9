"""The chat template: the model's own Jinja, sandboxed, with the names that such templates rely on."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.parser
import jinja2.sandbox

from llmservice_engine.codec.errors import TemplateRefused
from llmservice_engine.codec.folder import ModelFolder
from llmservice_engine.codec.messages import Message
from llmservice_engine.core.errors import InvalidSettings


class _GenerationBlock(jinja2.ext.Extension):
    """``{% generation %}`` marks the assistant's words for training; in serving its body is plain text."""

    tags = {"generation"}  # noqa: RUF012 (jinja2 declares it so)

    def parse(self, parser: jinja2.parser.Parser) -> list[jinja2.nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


@dataclass(frozen=True, slots=True)
class PromptOptions:
    """What a template is told besides the messages. ``more`` are names that only some templates know."""

    tools: Sequence[Mapping[str, Any]] = ()
    documents: Sequence[Mapping[str, Any]] = ()
    add_generation_prompt: bool = True
    continue_final_message: bool = False
    add_special_tokens: bool = False  # by the tokenizer; nearly every template writes its own
    template: str | None = None  # instead of the model's own
    more: Mapping[str, Any] = field(default_factory=dict)


PLAIN = PromptOptions()
RESERVED = frozenset({"messages", "tools", "documents", "add_generation_prompt"})
_HERE = "\uf8ffhere\uf8ff"  # private use: in no text


class ChatTemplate:
    """A compiled template. Pure: the same messages give the same text (but for the date, where it asks for it)."""

    def __init__(self, source: str, special_tokens: Mapping[str, str]) -> None:
        """Raises InvalidSettings where ``source`` is not a Jinja template."""
        try:
            self._template = _environment().from_string(source)
        except jinja2.TemplateSyntaxError as error:
            raise InvalidSettings(
                f"the chat template is wrong at line {error.lineno}: {error.message}",
                hint="give another one with --chat-template FILE",
            ) from None
        self._special_tokens = special_tokens

    def render(self, messages: Sequence[Message], options: PromptOptions = PLAIN) -> str:
        """The prompt's text, up to where the assistant's answer begins or goes on.

        Raises:
            TemplateRefused: the template raised; its own message is quoted.
        """
        if options.continue_final_message:
            return self._unfinished(messages, options)
        return self._render(messages, options)

    def _unfinished(self, messages: Sequence[Message], options: PromptOptions) -> str:
        """All up to the last message's last character: a mark put there says where that is."""
        *before, last = messages
        text = self._render([*before, {**last, "content": last["content"] + _HERE}], options)
        found, here, _ = text.rpartition(_HERE)
        if not here:
            raise TemplateRefused("it does not show the final message's content, so that cannot be continued")
        return found

    def _render(self, messages: Sequence[Message], options: PromptOptions) -> str:
        named = {
            "messages": messages,
            "tools": options.tools or None,
            "documents": options.documents or None,
            "add_generation_prompt": options.add_generation_prompt,
        }
        try:
            return self._template.render({**self._special_tokens, **options.more, **named})
        except Exception as error:  # noqa: BLE001 (a template is a program of someone else: anything may come out)
            raise TemplateRefused(str(error) or type(error).__name__) from None


def sources(setting: str | None, folder: ModelFolder) -> dict[str, str]:
    """The templates' texts by name: the setting (a path or the text itself), else the model's own.

    ``default`` is for plain chats; some folders have another one, ``tool_use``, for those with tools.

    Raises:
        InvalidSettings: the setting names no file and is no template.
    """
    if setting is not None:
        return {"default": _given(setting)}
    for name in ("chat_template.jinja", "chat_template.json"):
        file = folder.path / name
        if file.is_file():
            text = file.read_text(encoding="utf-8")
            return (
                {"default": text}
                if name.endswith(".jinja")
                else _named(json.loads(text).get("chat_template"))
            )
    return _named(folder.tokenizer.get("chat_template"))


def _given(setting: str) -> str:
    if "{" in setting:
        return setting
    try:
        return Path(setting).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise InvalidSettings(
            f"--chat-template {setting!r} is neither a readable file nor a Jinja template: {error}",
            hint="give the path of a file with the template",
        ) from None


def _named(found: object) -> dict[str, str]:
    entries = found if isinstance(found, list) else [{"name": "default", "template": found}]
    named = {entry.get("name"): entry.get("template") for entry in entries if isinstance(entry, dict)}
    return {str(name): text for name, text in named.items() if isinstance(text, str)}


def _environment() -> jinja2.sandbox.ImmutableSandboxedEnvironment:
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_GenerationBlock, "jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = _tojson
    environment.globals["raise_exception"] = _raise
    environment.globals["strftime_now"] = _strftime_now
    return environment


def _raise(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)


def _strftime_now(form: str) -> str:
    return datetime.datetime.now(tz=datetime.UTC).strftime(form)


def _tojson(value: Any, ensure_ascii: bool = False, indent: int | None = None, **options: Any) -> str:
    """Jinja's own filter escapes HTML, which no prompt wants."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, **options)
