"""What a preflight finds, and what can be found without a cluster."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from llmservice_planner import settings
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from llmservice_operator.api import checks, names, spec
from llmservice_operator.api.errors import InvalidSpec
from llmservice_operator.api.spec import LLMService, LLMServiceSpec
from llmservice_operator.cli.people import manifests, planning
from llmservice_operator.cli.people.answers import BadInput


class Level(StrEnum):
    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    level: Level
    about: str
    said: str
    next: str = ""  # the next move

    @property
    def sentence(self) -> str:
        return f"{self.said}; {self.next}" if self.next else self.said


def ok(about: str, said: str) -> Finding:
    return Finding(Level.OK, about, said)


def warn(about: str, said: str, then: str = "") -> Finding:
    return Finding(Level.WARN, about, said, then)


def fail(about: str, said: str, then: str = "") -> Finding:
    return Finding(Level.FAIL, about, said, then)


def offline(body: Mapping[str, Any]) -> tuple[list[Finding], LLMService | None]:
    """What the manifest alone says; None where the operator would refuse it."""
    if body.get("apiVersion") != names.API_VERSION:
        return [fail("apiVersion", f"is {body.get('apiVersion')!r}", f"write {names.API_VERSION}")], None
    stored = manifests.stored(body)
    if not isinstance(stored["metadata"]["name"], str):
        return [fail("metadata.name", f"is {stored['metadata']['name']!r}", "write a string")], None
    if not isinstance(body.get("spec"), Mapping):
        return [fail("spec", "is not there", "begin with spec.model.source")], None
    problems = list(_fields(stored["spec"]))
    if problems:
        return problems, None
    try:
        wanted = spec.parse(stored)
    except InvalidSpec as error:
        return [fail(error.path, error.message)], None
    return [ok("spec", "the operator takes it"), *_flags(wanted), *_memory(wanted)], wanted


def _fields(given: Mapping[str, Any]) -> Iterator[Finding]:
    """Every field that is unknown, of the wrong type or out of its range."""
    try:
        LLMServiceSpec.model_validate(given)
    except ValidationError as error:
        for problem in error.errors(include_url=False):
            said = checks.message(problem)
            nearest = _nearest(problem) if problem["type"] == "extra_forbidden" else None
            yield fail(checks.path(problem["loc"]), said, f"did you mean {nearest}?" if nearest else "")


def _nearest(problem: ErrorDetails) -> str | None:
    """The known field beside an unknown one that is spelt most like it."""
    part: Any = LLMServiceSpec
    for step in problem["loc"][:-1]:
        part = _below(part, step)
    if part is None:
        return None
    known = [info.alias or name for name, info in part.model_fields.items()]
    found = difflib.get_close_matches(str(problem["loc"][-1]), known, n=1, cutoff=0.6)
    return found[0] if found else None


def _below(part: type[BaseModel] | None, step: str | int) -> type[BaseModel] | None:
    if part is None or isinstance(step, int):
        return part
    for name, info in part.model_fields.items():
        if step in (name, info.alias):
            return _model_in(info.annotation)
    return None


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The one object type in an annotation: of ``X | None``, of ``tuple[X, ...]``."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for argument in getattr(annotation, "__args__", ()):
        found = _model_in(argument)
        if found is not None:
            return found
    return None


def _flags(wanted: LLMService) -> Iterator[Finding]:
    """Flags of another image that look like ours, misspelt; the operator cannot judge them."""
    engine = wanted.spec.engine
    typed = engine.settings()
    known = {settings.flag(name): name for name in settings.EngineSettings.model_fields}
    for index, argument in enumerate(engine.args):
        name = settings.flag_given(argument)
        if name is None:
            continue
        flag, about = settings.flag(name), f"spec.engine.args[{index}]"
        if name in typed:
            yield warn(
                about,
                f"{flag} is also a field of spec.engine, and the flag counts",
                "leave one of the two out",
            )
        elif flag not in known:
            nearest = difflib.get_close_matches(flag, known, n=1, cutoff=0.85)
            if nearest:
                yield warn(
                    about, f"{flag} looks like {nearest[0]}", "another image's flags are judged by it alone"
                )


def _memory(wanted: LLMService) -> Iterator[Finding]:
    device = wanted.spec.accelerator
    if device.fit_policy == "Ignore":
        return
    try:
        judged = planning.of_service(wanted)
    except BadInput as error:
        yield warn("memory", f"cannot be told: {error}")
        return
    said = f"{judged.verdict}: {judged.message}"
    if judged.verdict == "Fits":
        yield ok("memory", said)
    elif judged.verdict == "DoesNotFit":
        what = (
            "no pods are made (fitPolicy Enforce)"
            if device.fit_policy == "Enforce"
            else "its pods would not start"
        )
        yield fail("memory", said, what)
    else:
        yield warn("memory", said)
