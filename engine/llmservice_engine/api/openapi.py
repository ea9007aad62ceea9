"""``/openapi.json``: made from the routes and from the types that validate their bodies."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import llmservice_planner
import msgspec
from aiohttp import web
from llmservice_planner.settings import EngineSettings

from llmservice_engine.api import problem
from llmservice_engine.api.problem import ErrorBody

if TYPE_CHECKING:
    from llmservice_engine.api.routes import Route

Object = dict[str, Any]

_JSON = "application/json"
_ERRORS = {
    400: "The request cannot be served as it is; `param` names the field",
    401: "The API key is missing or wrong",
    404: "No such model",
    413: "The body is too large",
    500: "A fault of the server",
    503: "Not now: loading, draining or failed",
}
_WITH_BODY = (400, 413, 500)
# What a body under /v1 cannot do without. The types let these be null, to say in better words that they are missing.
_REQUIRED = ("model", "messages", "prompt", "input")


def answer(routes: Sequence[Route], settings: EngineSettings) -> web.Response:
    return problem.json_response(document(tuple(routes), settings.served_names))


@cache
def document(routes: tuple[Route, ...], served: tuple[str, ...]) -> Object:
    """The OpenAPI 3.1 document."""
    bodies = {kind for route in routes for kind in (route.body, route.answer) if kind is not None}
    ordered = sorted(bodies | {ErrorBody}, key=lambda kind: kind.__name__)
    _, schemas = msgspec.json.schema_components(ordered, ref_template="#/components/schemas/{name}")
    for schema in schemas.values():
        if "model" in schema.get("properties", {}) and "object" not in schema["properties"]:
            schema["properties"]["model"] = {"anyOf": [{"enum": list(served)}, {"type": "null"}]}
    for route in routes:
        if route.body is not None and route.path.startswith("/v1/"):
            _require(schemas[route.body.__name__])
    paths: Object = {}
    for route in routes:
        path = re.sub(r"\{(\w+):[^}]*\}", r"{\1}", route.path)
        paths.setdefault(path, {})[route.method.lower()] = _operation(route, path)
    return {
        "openapi": "3.1.0",
        "info": {"title": "llmservice-engine", "version": llmservice_planner.__version__},
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def _require(schema: Object) -> None:
    names = [name for name in _REQUIRED if "anyOf" in schema["properties"].get(name, ())]
    for name in names:
        one = schema["properties"][name]
        one.pop("default", None)
        one["anyOf"] = [kind for kind in one["anyOf"] if kind != {"type": "null"}]
    schema["required"] = [*schema.get("required", ()), *names]


def _operation(route: Route, path: str) -> Object:
    name = f"{route.method} {path}".lower()
    made: Object = {
        "summary": route.about,
        "operationId": re.sub(r"\W+", "_", name).strip("_"),
        "responses": {"200": _success(route)} | {str(code): _error(code) for code in _codes(route)},
        "security": [] if route.open else [{"key": []}, {}],
    }
    if route.body is not None:
        made["requestBody"] = {"required": True, "content": {_JSON: {"schema": _reference(route.body)}}}
    if "{" in path:
        made["parameters"] = [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
            for name in re.findall(r"\{(\w+)\}", path)
        ]
    return made


def _codes(route: Route) -> tuple[int, ...]:
    codes = _WITH_BODY if route.body is not None else ()
    keyed = () if route.open else (401, 404)
    always_there = route.open and route.path not in ("/health", "/ready", "/ping")
    return tuple(sorted((*codes, *keyed, *(() if always_there else (503,)))))


def _success(route: Route) -> Object:
    if route.text:
        return {"description": "OK", "content": {"text/plain": {"schema": {"type": "string"}}}}
    schema = {"type": "object"} if route.answer is None else _reference(route.answer)
    content: Object = {_JSON: {"schema": schema}}
    if route.streams:
        content["text/event-stream"] = {}  # OpenAPI 3.1 has no words for the events of a stream
    return {"description": "OK", "content": content}


def _error(code: int) -> Object:
    return {"description": _ERRORS[code], "content": {_JSON: {"schema": _reference(ErrorBody)}}}


def _reference(kind: type[msgspec.Struct]) -> Object:
    return {"$ref": f"#/components/schemas/{kind.__name__}"}
