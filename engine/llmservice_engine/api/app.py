"""Routes, and what holds for every request: an id, JSON errors, one metric."""

from __future__ import annotations

import asyncio
import logging
import re
import time
import uuid
from collections.abc import AsyncIterator

from aiohttp import web
from aiohttp.typedefs import Handler

from llmservice_engine.api import problem, routes
from llmservice_engine.api.handlers import REQUEST_ID, SERVICE
from llmservice_engine.api.keys import Keys
from llmservice_engine.api.problem import Problem
from llmservice_engine.api.service import Phase, Service

log = logging.getLogger("llmservice.api")

MAX_BODY_BYTES = 16 * 1024 * 1024
ID_HEADER = "X-Request-Id"
_CLIENT_GONE = 499  # nginx's number, in metrics only
_PROBES = frozenset({"/health", "/ready", "/ping", "/v1/models"})  # their 503 is an answer, not an event
KEYS = web.AppKey("keys", Keys)


def build(service: Service, keys: Keys) -> web.Application:
    app = web.Application(middlewares=[_guard], client_max_size=MAX_BODY_BYTES)
    app[SERVICE], app[KEYS] = service, keys
    for route in routes.ALL:
        app.router.add_route(route.method, route.path, route.handler)
        if route.method == "GET":
            app.router.add_route("HEAD", route.path, route.handler)
    app.on_response_prepare.append(_finish_headers)
    app.cleanup_ctx.append(_follow_keys)
    return app


async def _follow_keys(app: web.Application) -> AsyncIterator[None]:
    following = asyncio.ensure_future(app[KEYS].follow())
    yield
    following.cancel()


@web.middleware
async def _guard(request: web.Request, handler: Handler) -> web.StreamResponse:
    begun = time.monotonic()
    request[REQUEST_ID] = _request_id(request)
    code = _CLIENT_GONE
    try:
        response = await _as_json(request, handler)
        code = response.status
        return response
    finally:
        resource = request.match_info.route.resource
        name = "other" if resource is None else resource.canonical
        method = request.method if request.method in ("GET", "HEAD", "POST") else "other"
        request.app[SERVICE].metrics.http(name, method, code, time.monotonic() - begun)


async def _as_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    """The handler's answer; whatever it raises becomes an error body."""
    try:
        if request.path not in routes.OPEN and request.app[KEYS].wanted:
            _authenticate(request)
        return await handler(request)
    except Problem as error:
        _log_refusal(request, error)
        return error.response()
    except web.HTTPException as error:
        refusal = _from_aiohttp(request, error)
        _log_refusal(request, refusal)
        return refusal.response()
    except (asyncio.CancelledError, ConnectionError):
        raise  # the client has gone
    except Exception:
        log.exception("internal error request_id=%s path=%s", request[REQUEST_ID], request.path[:80])
        return problem.internal("internal error; the log has it under this request's id").response()


def _authenticate(request: web.Request) -> None:
    given = request.headers.get("Authorization", "")
    if not request.app[KEYS].allow(given):
        raise problem.unauthorized("is wrong" if given else "is missing")


def _from_aiohttp(request: web.Request, error: web.HTTPException) -> Problem:
    path = request.path[:200]
    if isinstance(error, web.HTTPMethodNotAllowed):
        allowed = ", ".join(sorted(error.allowed_methods))
        message = f"{request.method} is not allowed on {path}: use {allowed}"
        return Problem(405, message, code="method_not_allowed", headers={"Allow": allowed})
    if isinstance(error, web.HTTPNotFound):
        return Problem(404, f"there is no {path} here", code="not_found")
    if isinstance(error, web.HTTPRequestEntityTooLarge):
        return Problem(413, f"the body is larger than {MAX_BODY_BYTES} bytes", code="body_too_large")
    return Problem(error.status, error.reason or "the request cannot be served")


def _log_refusal(request: web.Request, error: Problem) -> None:
    if request.path in _PROBES:
        return
    log.info(
        "refused request_id=%s path=%s status=%d code=%s param=%s",
        request[REQUEST_ID],
        request.path[:80].encode("unicode_escape").decode(),
        error.status,
        error.code or "none",
        (error.param or "none")[:80].encode("unicode_escape").decode(),
    )


def _request_id(request: web.Request) -> str:
    """The client's own id where it is short and plain, else a new one."""
    given = request.headers.get(ID_HEADER, "")
    return given if re.fullmatch(r"[\w.:/+=-]{1,128}", given, re.ASCII) else uuid.uuid4().hex


async def _finish_headers(request: web.Request, response: web.StreamResponse) -> None:
    if REQUEST_ID in request:
        response.headers[ID_HEADER] = request[REQUEST_ID]
    if request.app[SERVICE].phase is Phase.DRAINING:
        response.headers["Connection"] = "close"
        response.force_close()
