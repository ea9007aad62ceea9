"""vLLM's flags: which of them the resource types by name, and which go on as they are."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from llmservice_planner import settings
from pydantic.alias_generators import to_camel

from llmservice_operator.cli.people.conversion import command

_SHORT = {
    "-tp": "tensor_parallel_size",
    "-pp": "pipeline_parallel_size",
    "-q": "quantization",
    "-O": "compilation_config",
}
_SWITCHES = re.compile(r"(enable|disable|no|enforce|trust|use|return)_")  # vLLM's flags that take no value


@dataclass(frozen=True, slots=True)
class Given:
    name: str  # as the settings spell it: max_model_len
    words: tuple[str, ...]  # as they were written
    values: tuple[str, ...]


class Flags:
    """A server's command line, from which flags are taken one by one."""

    def __init__(self, arguments: Iterable[str], variables: Mapping[str, str]) -> None:
        self._variables = variables
        self._given = list(_split(arguments))
        self._find_model()

    def take(self, name: str) -> str | None:
        """The value of the last such flag, variables filled in; all of them are gone then."""
        values = self.take_all(name)
        return values[-1] if values else None

    def take_all(self, name: str) -> tuple[str, ...] | None:
        """The values of the last such flag; None where it is not given."""
        found = [one for one in self._given if one.name == name]
        self._given = [one for one in self._given if one.name != name]
        return tuple(map(self._filled, found[-1].values)) if found else None

    def has(self, *names: str) -> bool:
        return any(one.name in names for one in self._given)

    def typed(self) -> dict[str, Any]:
        """Take what the resource types by name, where the value is one of its values: camelCase → value."""
        found: dict[str, Any] = {}
        for name in settings.resource_fields():
            given = [one for one in self._given if one.name == name]
            if not given or len(given[-1].values) > 1:
                continue
            values = map(self._filled, given[-1].values)  # none for a switch
            try:
                parsed = settings.parse_args(["--model", "m", settings.flag(name), *values])
            except settings.SettingsError:
                continue  # vLLM may know it: it stays a flag
            found[to_camel(name)] = getattr(parsed, name)
            self._given = [one for one in self._given if one.name != name]
        return found

    @property
    def rest(self) -> list[Given]:
        return list(self._given)

    def _filled(self, value: str) -> str:
        return command.expanded(value, self._variables)

    def _find_model(self) -> None:
        """``vllm serve --enforce-eager org/name``: the value of a switch is the model."""
        if self.has("model"):
            return
        for number, one in enumerate(self._given):
            if _SWITCHES.match(one.name) and len(one.values) == 1 and len(one.words) == 2:
                self._given[number] = Given(one.name, one.words[:1], ())
                self._given.append(Given("model", ("--model", *one.values), one.values))
                return


def _split(arguments: Iterable[str]) -> Iterable[Given]:
    words: list[str] = []
    for argument in arguments:
        is_flag = argument.startswith("-") and not re.match(r"-[\d.]", argument)
        if is_flag and words:
            yield _one(words)
            words = []
        words.append(argument)
    if words:
        yield _one(words)


def _one(words: list[str]) -> Given:
    head, equals, value = words[0].partition("=")
    name = _SHORT.get(head) or head.lstrip("-").replace("-", "_")
    return Given(name, tuple(words), (*((value,) if equals else ()), *words[1:]))
