"""The chat template: the model's own Jinja, sandboxed, with the names that such templates rely on."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping, Sequence
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

    def render(self, messages: Sequence[Message]) -> str:
        """The prompt's text, up to where the assistant's answer begins.

        Raises:
            TemplateRefused: the template raised; its own message is quoted.
        """
        try:
            return self._template.render(
                **self._special_tokens,
                messages=messages,
                tools=None,
                documents=None,
                add_generation_prompt=True,
            )
        except Exception as error:  # noqa: BLE001 (a template is a program of someone else: anything may come out)
            raise TemplateRefused(str(error) or type(error).__name__) from None


def source(setting: str | None, folder: ModelFolder) -> str | None:
    """The template's text: the setting (a path or the text itself), else the model's own, else None.

    Raises:
        InvalidSettings: the setting names no file and is no template.
    """
    if setting is not None:
        return _given(setting)
    for name in ("chat_template.jinja", "chat_template.json"):
        file = folder.path / name
        if file.is_file():
            text = file.read_text(encoding="utf-8")
            return text if name.endswith(".jinja") else _default_of(json.loads(text).get("chat_template"))
    return _default_of(folder.tokenizer.get("chat_template"))


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


def _default_of(found: object) -> str | None:
    """Some folders name several templates; ``default`` is for plain chats."""
    if isinstance(found, list):
        named = {entry.get("name"): entry.get("template") for entry in found if isinstance(entry, dict)}
        found = named.get("default")
    return found if isinstance(found, str) else None


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
