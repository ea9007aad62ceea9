"""Structured output: the fields of OpenAI and of vLLM (old and new names) that say what an answer must match."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from llmservice_engine.api import problem
from llmservice_engine.api.problem import bad_field
from llmservice_engine.api.sampling import Sampling
from llmservice_engine.codec.errors import GrammarError
from llmservice_engine.codec.grammar import GrammarText
from llmservice_engine.core.constraint import Constraint
from llmservice_engine.core.errors import RequestError

if TYPE_CHECKING:
    from llmservice_engine.codec.codec import Codec

Schema = dict[str, Any] | str  # a JSON schema, or its text
ANY_OBJECT: dict[str, Any] = {"type": "object"}


class JsonSchemaFormat(msgspec.Struct, kw_only=True):
    """``strict`` changes nothing: the schema always holds."""

    name: str | None = None
    description: str | None = None
    schema: dict[str, Any] | None = None
    strict: bool | None = None


class ResponseFormat(msgspec.Struct, kw_only=True):
    type: Literal["text", "json_object", "json_schema"]
    json_schema: JsonSchemaFormat | None = None


class StructuredOutputs(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    json: Schema | None = None
    regex: str | None = None
    choice: list[str] | None = None
    grammar: str | None = None  # Lark or GBNF
    json_object: bool | None = None


class Structured(Sampling, kw_only=True):
    response_format: ResponseFormat | None = None
    structured_outputs: StructuredOutputs | None = None
    guided_json: Schema | None = None
    guided_regex: str | None = None
    guided_choice: list[str] | None = None
    guided_grammar: str | None = None

    @property
    def constrained(self) -> bool:
        return any(True for _ in _grammars(self))


def constraint(request: Structured, codec: Codec) -> Constraint | None:
    """What the answer must match. Compiles: not for the event loop. Raises Problem."""
    found = list(_grammars(request))
    if len(found) > 1:
        names = " and ".join(one.param for one in found)
        raise bad_field(found[1].param, f"{names} exclude each other: give one of them")
    return compiled(found[0], codec) if found else None


def of_schema(schema: dict[str, Any], param: str, codec: Codec) -> Constraint:
    """The same for a schema that comes otherwise, such as a tool's. Raises Problem."""
    return compiled(_json(schema, param), codec)


def compiled(grammar: GrammarText, codec: Codec) -> Constraint:
    """Raises Problem."""
    try:
        return codec.grammars.compile(grammar)
    except GrammarError as error:
        raise bad_field(error.param, error.message, code="invalid_grammar") from None
    except RequestError as error:
        raise problem.unsupported(grammar.param, error.message) from None


def _grammars(request: Structured) -> Iterator[GrammarText]:
    if request.response_format is not None:
        yield from _response_format(request.response_format)
    newer = request.structured_outputs or StructuredOutputs()
    if newer.json_object:
        yield _json(ANY_OBJECT, "structured_outputs.json_object")
    for schema, param in ((newer.json, "structured_outputs.json"), (request.guided_json, "guided_json")):
        if schema is not None:
            yield _json(schema, param)
    for regex, param in ((newer.regex, "structured_outputs.regex"), (request.guided_regex, "guided_regex")):
        if regex is not None:
            yield GrammarText("regex", regex, param)
    for choice, param in (
        (newer.choice, "structured_outputs.choice"),
        (request.guided_choice, "guided_choice"),
    ):
        if choice is not None:
            yield _choice(choice, param)
    for text, param in (
        (newer.grammar, "structured_outputs.grammar"),
        (request.guided_grammar, "guided_grammar"),
    ):
        if text is not None:
            yield GrammarText("grammar", text, param)


def _response_format(given: ResponseFormat) -> Iterator[GrammarText]:
    if given.type == "json_object":
        yield _json(ANY_OBJECT, "response_format")
    elif given.type == "json_schema":
        param = "response_format.json_schema"
        if given.json_schema is None or given.json_schema.schema is None:
            raise bad_field(f"{param}.schema", f"{param}.schema is missing: give the schema of the answer")
        yield _json(given.json_schema.schema, f"{param}.schema")


def _json(schema: Schema, param: str) -> GrammarText:
    """As text. The order of properties is kept: it is that of the answer."""
    try:
        known = msgspec.json.decode(schema) if isinstance(schema, str) else schema
        if not isinstance(known, dict):
            raise bad_field(param, f"{param} must be a JSON schema, that is a JSON object")
        return GrammarText("json_schema", msgspec.json.encode(known).decode(), param)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise bad_field(param, f"{param} is no JSON schema: {error}") from None


def _choice(choice: list[str], param: str) -> GrammarText:
    if not choice or "" in choice:
        raise bad_field(param, f"{param} must be a list of one or more texts, none of them empty")
    try:
        return GrammarText("choice", msgspec.json.encode(choice).decode(), param)
    except UnicodeEncodeError:
        raise bad_field(param, f"{param} holds half of a surrogate pair, which is no text") from None
