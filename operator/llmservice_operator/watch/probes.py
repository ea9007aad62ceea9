"""``/healthz``, ``/readyz`` and ``/metrics``, on a port of their own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

Check = Callable[[], Awaitable[str | None]]  # what is wrong, or None


class PortTaken(RuntimeError):
    """The port for the probes cannot be listened on."""


async def serve(
    port: int, healthy: Check, ready: Check, state: Callable[[], str] = lambda: "ok"
) -> web.AppRunner:
    """Listen from now on. The caller cleans the runner up. ``state``: what ``/readyz`` says where nothing is wrong.

    Raises:
        PortTaken: something else listens there.
    """
    app = web.Application()
    app.router.add_get("/healthz", _answer(healthy))
    app.router.add_get("/readyz", _answer(ready, state))
    app.router.add_get("/metrics", _metrics)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5)
    await runner.setup()
    try:
        await web.TCPSite(runner, None, port).start()
    except OSError as error:
        await runner.cleanup()
        raise PortTaken(f"cannot listen on port {port} for the probes: {error.strerror}") from error
    return runner


def _answer(
    check: Check, state: Callable[[], str] = lambda: "ok"
) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def answer(_: web.Request) -> web.Response:
        wrong = await check()
        return web.Response(text=wrong or state(), status=200 if wrong is None else 503)

    return answer


async def _metrics(_: web.Request) -> web.Response:
    return web.Response(body=generate_latest(), headers={"Content-Type": CONTENT_TYPE_LATEST})
