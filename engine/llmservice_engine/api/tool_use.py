"""A request's ``tools`` and ``tool_choice``: what the prompt shows, what the answer may be, how it is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Annotated, Any, Literal

import msgspec
from llmservice_planner.settings import EngineSettings
from msgspec import Meta

from llmservice_engine.api import problem
from llmservice_engine.codec.codec import Formats
from llmservice_engine.codec.reading import Chain, MachineReader, OneCall, Plain, Reader
from llmservice_engine.codec.reasoning import think
from llmservice_engine.codec.tools import forced
from llmservice_engine.codec.tools.forced import Named, Schema

FunctionName = Annotated[str, Meta(min_length=1, max_length=256)]


class Function(msgspec.Struct, kw_only=True, omit_defaults=True):
    name: FunctionName
    description: str | None = None
    parameters: dict[str, Any] | None = None  # a JSON schema
    strict: bool | None = None


class Tool(msgspec.Struct, kw_only=True):
    type: Literal["function"]
    function: Function


class ChosenFunction(msgspec.Struct, kw_only=True):
    name: FunctionName


class NamedChoice(msgspec.Struct, kw_only=True):
    type: Literal["function"]
    function: ChosenFunction


Choice = Literal["none", "auto", "required"] | NamedChoice


class Mode(StrEnum):
    OFF = "none"
    AUTO = "auto"
    REQUIRED = "required"
    NAMED = "named"


@dataclass(frozen=True, slots=True)
class ToolUse:
    mode: Mode = Mode.OFF
    tools: tuple[Tool, ...] = ()
    name: str = ""  # of the function that must be called, in mode NAMED
    several: bool = True  # calls in one answer

    @property
    def for_template(self) -> list[dict[str, Any]]:
        return [msgspec.to_builtins(tool) for tool in self.tools]

    def schema(self) -> Schema | None:
        """What a grammar must hold the answer to. Raises Problem."""
        functions = [msgspec.to_builtins(tool.function) for tool in self.tools]
        if self.mode is Mode.NAMED:
            chosen = next(function for function in functions if function["name"] == self.name)
            return chosen.get("parameters") or {"type": "object"}
        if self.mode is not Mode.REQUIRED:
            return None
        try:
            return forced.one_of(functions, several=self.several)
        except ValueError as error:
            raise problem.bad_field("tools", str(error)) from None


def choose(
    tools: list[Tool] | None, choice: Choice | None, *, several: bool, settings: EngineSettings
) -> ToolUse:
    """Raises Problem where the choice does not fit the tools or this server's settings."""
    known = tuple(tools or ())
    names = {tool.function.name for tool in known}
    if choice == "none" or (not known and choice in (None, "auto")):
        return ToolUse()
    if not known:
        raise problem.bad_field(
            "tool_choice", "tool_choice asks for a call, but there are no tools: give tools"
        )
    if isinstance(choice, NamedChoice):
        if choice.function.name not in names:
            raise problem.bad_field(
                "tool_choice",
                f"tool_choice names the function {choice.function.name!r}, which is not among tools: "
                f"{', '.join(sorted(names))}",
            )
        return ToolUse(Mode.NAMED, known, choice.function.name)
    if choice == "required":
        return ToolUse(Mode.REQUIRED, known, several=several)
    if not settings.enable_auto_tool_choice or settings.tool_call_parser is None:
        raise problem.unsupported(
            "tools",
            "tools with tool_choice auto need the engine's --enable-auto-tool-choice and --tool-call-parser "
            "(in the resource spec.engine.enableAutoToolChoice and toolCallParser); "
            "tool_choice none, required or a named function work without",
        )
    return ToolUse(Mode.AUTO, known, several=several)


def readers(use: ToolUse, formats: Formats, prompt: str, *, continued: bool) -> Callable[[], Reader]:
    """Makes a reader for each answer to ``prompt``."""
    if use.mode is Mode.NAMED:
        return lambda: Named(use.name)
    if use.mode is Mode.REQUIRED:
        return lambda: MachineReader(forced.machine)
    calls = _free_calls(use, formats)
    if formats.reasoning is None:
        return calls
    opened = (
        prompt.rfind(think.OPEN) > prompt.rfind(think.CLOSE)
        if continued
        else think.begins_open(formats.reasoning, prompt)
    )
    return lambda: Chain(MachineReader(partial(think.machine, opened=opened)), calls())


def _free_calls(use: ToolUse, formats: Formats) -> Callable[[], Reader]:
    """Of an answer that may call tools in the model's own format."""
    if use.mode is not Mode.AUTO or formats.tools is None:
        return Plain
    machine, names = formats.tools.machine, frozenset(tool.function.name for tool in use.tools)

    def make() -> Reader:
        reader = MachineReader(lambda text: machine(text, names))
        return reader if use.several else OneCall(reader)

    return make
