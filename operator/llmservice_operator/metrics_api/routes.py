"""What is answered, to whom: the paths of ``custom.metrics.k8s.io``, with a Status wherever the answer is no."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable

from aiohttp import web
from prometheus_client import Counter

from llmservice_operator.live.client import ApiError
from llmservice_operator.metrics_api import callers, figures, listener, wire
from llmservice_operator.metrics_api.callers import Caller, FrontProxy
from llmservice_operator.metrics_api.pods import ReadyPods
from llmservice_operator.metrics_api.reviews import Question, Reviews, TooManyTokens
from llmservice_operator.metrics_api.scraper import Scraper

REQUESTS = Counter("llmservice_metrics_api_requests", "Requests answered on the TLS port", ["code"])
CALLER: web.RequestKey[Caller] = web.RequestKey("caller", Caller)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

logger = logging.getLogger(__name__)


class Refused(Exception):
    """The answer is no."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class Api:
    """Answers from ``pods`` and ``scraper``; ``reviews`` and the front proxy's marks say who may have it."""

    def __init__(self, pods: ReadyPods, scraper: Scraper, reviews: Reviews) -> None:
        self._pods = pods
        self._scraper = scraper
        self._reviews = reviews
        self.front_proxy: FrontProxy | None = None  # until it is known, nobody is believed

    def application(self) -> web.Application:
        app = web.Application(middlewares=[self._as_status, self._known], client_max_size=4096)
        root = f"/apis/{wire.GROUP}"
        version = "{version:" + "|".join(wire.VERSIONS) + "}"
        app.router.add_get("/apis", self._discover(lambda _: wire.groups()))
        app.router.add_get(root, self._discover(lambda _: wire.group()))
        app.router.add_get(
            f"{root}/{version}", self._discover(lambda request: wire.resources(request.match_info["version"]))
        )
        app.router.add_get(
            f"{root}/{version}/namespaces/{{namespace}}/{{resource}}/{{name}}/{{metric}}", self._metric
        )
        return app

    # --- everything that comes in ----------------------------------------------------------------------------
    @web.middleware
    async def _as_status(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Whatever happens becomes an answer that Kubernetes understands."""
        try:
            answer = await handler(request)
        except Refused as error:
            answer = _refusal(error.code, error.message)
        except web.HTTPException as error:
            answer = _refusal(error.status, f"{request.method} {request.path[:200]}: {error.reason}")
        except ApiError as error:
            answer = _refusal(503, f"the API server does not say whether that is allowed: {error.message}")
        except Exception:
            logger.exception("no answer to %s", request.path[:200])
            answer = _refusal(500, "an error of ours, see the log")
        if answer.status == 401:
            answer.force_close()  # the next try pays for its own handshake
        REQUESTS.labels(str(answer.status)).inc()
        return answer

    @web.middleware
    async def _known(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        caller = await self._caller(request)
        if caller is None:
            raise Refused(401, "Unauthorized")
        request[CALLER] = caller
        return await handler(request)

    async def _caller(self, request: web.Request) -> Caller | None:
        proxy = self.front_proxy
        if proxy is not None and proxy.is_at(listener.peer(request.transport)):
            return proxy.caller(request.headers)
        token = callers.bearer(request.headers)
        if not token:
            return None
        try:
            return await self._reviews.caller(token)
        except TooManyTokens:
            raise Refused(429, "too many tokens to look up") from None

    # --- answers ---------------------------------------------------------------------------------------------
    def _discover(self, body: Callable[[web.Request], wire.Body]) -> Handler:
        """For whoever is somebody: it holds no figures, and the API server itself asks without groups."""

        async def answer(request: web.Request) -> web.StreamResponse:
            return _json(body(request))

        return answer

    async def _metric(self, request: web.Request) -> web.StreamResponse:
        given = request.match_info
        namespace, name, metric = given["namespace"], given["name"], given["metric"]
        caller = request[CALLER]
        # Before anything is told of what there is.
        if not await self._reviews.may(caller, Question(given["version"], namespace, name, metric)):
            raise Refused(
                403,
                f'{wire.RESOURCE}/{metric} "{name}" is forbidden: User "{caller.user}" cannot get it in namespace '
                f'"{namespace}"',
            )
        if given["resource"] != wire.RESOURCE or metric not in wire.METRICS:
            raise Refused(404, f"there is no metric {metric} of {given['resource']}; there are {_names()}")
        if request.query.get("metricLabelSelector"):
            raise Refused(400, "metricLabelSelector: these metrics have no labels to select by")
        if name == "*":
            raise Refused(400, f"one {wire.RESOURCE} at a time: name it instead of *")
        pods = self._pods.of(namespace, name)
        if not pods:
            raise Refused(404, f"no pod of LLMService {namespace}/{name} is ready")
        answers = [found for found in await self._scraper.ask(pods) if metric in found.reading]
        try:
            total = figures.total(metric, [found.reading for found in answers], len(pods))
        except figures.TooFewAnswers as error:
            raise Refused(503, f"LLMService {namespace}/{name}: {error}") from error
        taken = min(found.taken for found in answers)
        quantity = figures.quantity(total)
        return _json(wire.value(given["version"], namespace, name, metric, quantity, taken))


def _names() -> str:
    return ", ".join(f"{wire.RESOURCE}/{metric}" for metric in wire.METRICS)


def _refusal(code: int, message: str) -> web.Response:
    return _json(wire.refusal(code, message), code)


def _json(body: wire.Body, status: int = 200) -> web.Response:
    """JSON whatever was asked for: API servers and autoscalers ask for protobuf first, and take this."""
    return web.Response(body=json.dumps(body).encode(), status=status, content_type="application/json")
