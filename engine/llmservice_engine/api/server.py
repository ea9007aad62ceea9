"""The process from its first second to its last: listen, load in a thread, serve, drain, exit."""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from aiohttp import web
from llmservice_planner.settings import EngineSettings

from llmservice_engine.api import app, listen, logs, report
from llmservice_engine.api.keys import Keys
from llmservice_engine.api.metrics import Metrics
from llmservice_engine.api.service import Service
from llmservice_engine.codec.codec import Codec, Formats
from llmservice_engine.codec.tools import registry
from llmservice_engine.core.errors import StartupError
from llmservice_engine.core.outputs import EngineStats, TokenDelta

if TYPE_CHECKING:
    from llmservice_engine.engine import Engine, EngineLoop

log = logging.getLogger("llmservice.server")

_WATCH_SECONDS = 0.25  # how soon a dead engine is noticed

_STOP_SECONDS = 5

Deliver = Callable[[list[TokenDelta], EngineStats], None]
Loaded = tuple["Engine", "EngineLoop", Codec]


class LoadEngine(Protocol):
    """Makes the engine and its loop, not started yet. Runs in a thread; may import torch, which takes seconds."""

    def __call__(
        self, settings: EngineSettings, progress: Callable[[str], None], deliver: Deliver, /
    ) -> tuple[Engine, EngineLoop]: ...


def serve(settings: EngineSettings, load: LoadEngine) -> int:
    """Run the server until it is told to stop. Returns the process's exit code.

    The caller ends the process with ``os._exit``: after a failure or a stop while loading, threads still run that
    nothing can end.
    """
    logs.configure(settings.log_level)
    try:
        return asyncio.run(_Server(settings, load).run())
    except Exception as error:
        if not isinstance(error, StartupError):
            log.exception("the engine has failed")
        report.write(error)
        return report.exit_code(error)


class _Server:
    def __init__(self, settings: EngineSettings, load: LoadEngine) -> None:
        self._settings = settings
        self._load = load
        self._stop = asyncio.Event()

    async def run(self) -> int:
        self._catch_signals()
        self._service = Service(self._settings, Metrics(self._settings.served_names[0]))
        runner = web.AppRunner(
            app.build(self._service, Keys(self._settings)),
            handler_cancellation=True,
            access_log=None,
            shutdown_timeout=2,
        )
        await runner.setup()
        for sock in listen.sockets(self._settings.host, self._settings.port):
            await web.SockSite(runner, sock).start()
            log.info("listening address=%s port=%d", *sock.getsockname()[:2])
        try:
            loop = await self._started_or_stopped()
            if loop is None:
                log.info("stopped while loading")
                return 0
            await self._watch(loop)
            await self._drain(loop)
            _stop(loop)
        finally:
            await runner.cleanup()
        return 0

    def _catch_signals(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self._on_signal, number.name)

    def _on_signal(self, name: str) -> None:
        log.info("%s received", name)
        if self._stop.is_set():
            self._service.hurry()
        self._stop.set()

    async def _start(self) -> EngineLoop:
        begun = time.monotonic()
        engine, loop, codec = await _in_thread(self._make)
        if codec.vocabulary > engine.info.vocabulary:
            log.warning(
                "the tokenizer knows %d ids, the model %d: a prompt with one beyond is refused; "
                "check that tokenizer.json belongs to these weights",
                codec.vocabulary,
                engine.info.vocabulary,
            )
        defaults = codec.sampling_defaults
        log.info(
            "text end_ids=%s chat_template=%s default temperature=%s top_p=%s top_k=%s",
            ",".join(map(str, sorted(codec.end_ids))),
            codec.has_chat_template,
            defaults.temperature,
            defaults.top_p,
            defaults.top_k,
        )
        await self._service.serve(engine, loop, codec)
        log.info(
            "serving names=%s start_s=%.1f", ",".join(self._settings.served_names), time.monotonic() - begun
        )
        return loop

    def _make(self) -> Loaded:
        codec = _codec(self._settings)  # first: it fails in 0.1 s
        return (*self._load(self._settings, self._progress, self._service.deliver), codec)

    def _progress(self, what: str) -> None:
        log.info("loading: %s", what)
        self._service.detail = what

    async def _started_or_stopped(self) -> EngineLoop | None:
        """The running loop, or None where a signal came first."""
        starting = asyncio.ensure_future(self._start())
        stopping = asyncio.ensure_future(self._stop.wait())
        await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if starting.done():
            return starting.result()
        starting.cancel()
        return None

    async def _watch(self, loop: EngineLoop) -> None:
        """Returns when it is time to stop; raises what killed the engine's thread."""
        while not self._stop.is_set():
            if loop.failed is not None:
                await self._service.fail(f"{type(loop.failed).__name__}: {loop.failed}")
                raise loop.failed
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), _WATCH_SECONDS)

    async def _drain(self, loop: EngineLoop) -> None:
        """Let running requests end. A second signal, or the engine's death, ends the wait."""
        begun = time.monotonic()
        log.info("draining timeout_s=%g", self._settings.drain_timeout)
        draining = asyncio.ensure_future(self._service.drain(self._settings.drain_timeout))
        while not draining.done():
            await asyncio.wait({draining}, timeout=_WATCH_SECONDS)
            if loop.failed is not None:
                draining.cancel()
                await self._service.fail(f"{type(loop.failed).__name__}: {loop.failed}")
                raise loop.failed
        log.info("drained complete=%s after_s=%.1f", draining.result(), time.monotonic() - begun)


def _codec(settings: EngineSettings) -> Codec:
    parser = settings.tool_call_parser
    return Codec.load(
        settings.model,
        settings.chat_template,
        formats=Formats(None if parser is None else registry.FORMATS[parser], settings.reasoning_parser),
        generation_config=settings.generation_config,
        override_generation_config=settings.override_generation_config,
    )


def _stop(loop: EngineLoop) -> None:
    """Stop the engine's thread; a stuck one is left behind, for the process ends anyway."""
    stopping = threading.Thread(target=loop.stop, daemon=True)
    stopping.start()
    stopping.join(_STOP_SECONDS)


async def _in_thread(make: Callable[[], Loaded]) -> Loaded:
    """Run ``make`` in a thread that does not keep the process alive (an executor's would)."""
    event_loop = asyncio.get_running_loop()
    outcome: asyncio.Future[Loaded] = event_loop.create_future()

    def settle(made: Loaded | None, failure: BaseException | None) -> None:
        if outcome.cancelled():
            return
        if made is not None:
            outcome.set_result(made)
        elif failure is not None:
            outcome.set_exception(failure)

    def run() -> None:
        try:
            event_loop.call_soon_threadsafe(settle, make(), None)
        except BaseException as error:  # noqa: BLE001 (handed to whoever waits)
            event_loop.call_soon_threadsafe(settle, None, error)

    threading.Thread(target=run, name="load", daemon=True).start()
    return await outcome
