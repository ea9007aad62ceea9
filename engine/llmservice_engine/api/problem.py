"""What clients get instead of an answer: OpenAI's error shape, always as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from aiohttp import web


class ErrorDetail(msgspec.Struct):
    """OpenAI's error object: all four are always there."""

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorBody(msgspec.Struct):
    error: ErrorDetail


class Problem(Exception):
    """An HTTP error. ``code`` is a string or None, ``param`` the body's field."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        type: str = "invalid_request_error",  # noqa: A002 (OpenAI's name)
        param: str | None = None,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.type = type
        self.param = param
        self.code = code
        self.headers = dict(headers or {})

    def body(self) -> dict[str, Any]:
        detail = ErrorDetail(self.message, self.type, self.param, self.code)
        return {"error": msgspec.to_builtins(detail)}

    def response(self) -> web.Response:
        return json_response(self.body(), status=self.status, headers=self.headers)


def json_response(
    body: object, *, status: int = 200, headers: Mapping[str, str] | None = None
) -> web.Response:
    return web.Response(
        body=msgspec.json.encode(body),
        status=status,
        headers=headers,
        content_type="application/json",
        charset="utf-8",
    )


def bad_field(param: str, message: str, *, code: str | None = None) -> Problem:
    return Problem(400, message, param=param, code=code)


def unsupported(param: str, reason: str) -> Problem:
    return Problem(400, reason, param=param, code="unsupported_parameter")


def unknown_model(asked: str, served: Sequence[str]) -> Problem:
    return Problem(
        404,
        f"the model {asked!r} does not exist here; served: {', '.join(served)}",
        param="model",
        code="model_not_found",
    )


def unauthorized(what: str) -> Problem:
    return Problem(
        401,
        f"the API key {what}: send it as the header Authorization: Bearer KEY",
        code="invalid_api_key",
        headers={"WWW-Authenticate": "Bearer"},
    )


def unavailable(message: str, code: str, *, retry_after: int = 1) -> Problem:
    """For now only: the client should come again, here or to another replica."""
    return Problem(
        503, message, type="service_unavailable", code=code, headers={"Retry-After": str(max(1, retry_after))}
    )


def internal(message: str) -> Problem:
    return Problem(500, message, type="server_error", code="internal_error")
