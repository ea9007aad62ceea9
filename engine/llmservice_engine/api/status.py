"""Probes, the model list, version and metrics. All answered from memory."""

from __future__ import annotations

import llmservice_planner
import msgspec
from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST

from llmservice_engine.api import problem
from llmservice_engine.api.handlers import SERVICE
from llmservice_engine.api.service import Phase, Service


class Status(msgspec.Struct):
    status: str


class Version(msgspec.Struct):
    version: str


class Load(msgspec.Struct):
    server_load: int


class Model(msgspec.Struct):
    id: str
    object: str
    created: int  # Unix s
    owned_by: str
    root: str
    parent: str | None
    max_model_len: int | None


class Models(msgspec.Struct):
    object: str
    data: list[Model]


async def health(request: web.Request) -> web.Response:
    """Liveness: 200 while steps advance, also in the drain."""
    return _verdict(request.app[SERVICE].health())


async def ready(request: web.Request) -> web.Response:
    """Readiness: 200 while new requests are wanted."""
    return _verdict(request.app[SERVICE].readiness())


async def models(request: web.Request) -> web.Response:
    service = _loaded(request)
    return problem.json_response(
        Models("list", [_model(service, name) for name in service.settings.served_names])
    )


async def model(request: web.Request) -> web.Response:
    service = _loaded(request)
    name = request.match_info["name"]
    if name not in service.settings.served_names:
        raise problem.unknown_model(name, service.settings.served_names)
    return problem.json_response(_model(service, name))


async def version(request: web.Request) -> web.Response:
    return problem.json_response(Version(llmservice_planner.__version__))


async def load(request: web.Request) -> web.Response:
    """vLLM's gauge for balancers: requests that are being answered."""
    return problem.json_response(Load(server_load=request.app[SERVICE].load))


async def metrics(request: web.Request) -> web.Response:
    text = request.app[SERVICE].metrics.text()
    return web.Response(body=text, headers={"Content-Type": CONTENT_TYPE_LATEST})


def _verdict(reason: str | None) -> web.Response:
    if reason is None:
        return problem.json_response(Status("ok"))
    raise problem.unavailable(reason, "unavailable")


def _loaded(request: web.Request) -> Service:
    """The service once its model is there: an empty list would read as ready to some."""
    service = request.app[SERVICE]
    if service.phase in (Phase.LOADING, Phase.FAILED):
        raise problem.unavailable(service.health() or "not ready", "unavailable")
    return service


def _model(service: Service, name: str) -> Model:
    return Model(
        id=name,
        object="model",
        created=service.started_at,
        owned_by="llmservice",
        root=service.settings.model,
        parent=None,
        max_model_len=service.max_model_len,
    )
