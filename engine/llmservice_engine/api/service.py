"""What stands between HTTP and the engine's thread: the phase of life, the jobs in flight, health."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from enum import StrEnum
from typing import TYPE_CHECKING

from llmservice_planner.settings import EngineSettings

from llmservice_engine.api import problem
from llmservice_engine.api.job import Choice, Job, Piece
from llmservice_engine.api.metrics import Metrics
from llmservice_engine.core.outputs import EngineStats, FinishReason, TokenDelta
from llmservice_engine.core.request import NewRequest
from llmservice_engine.core.sampling_params import SamplingParams

if TYPE_CHECKING:
    from llmservice_engine.codec.codec import Codec
    from llmservice_engine.engine import Engine, EngineLoop

WARMUP_TOKENS = 2
_LAST_WORDS_SECONDS = 2  # for error events to reach their clients before the process ends


class Phase(StrEnum):
    LOADING = "loading"
    SERVING = "serving"
    DRAINING = "draining"
    FAILED = "failed"


class Service:
    """One model server's state. Made before the model is there; touched on the event loop only, but for deliver()."""

    def __init__(self, settings: EngineSettings, metrics: Metrics) -> None:
        self.settings = settings
        self.metrics = metrics
        self.phase = Phase.LOADING
        self.detail = "starting"  # of loading, for /health
        self.started_at = int(time.time())
        self._event_loop = asyncio.get_running_loop()
        self._loaded: tuple[Engine, EngineLoop, Codec] | None = None
        self._in_flight: dict[str, tuple[Job, Choice]] = {}
        self._handlers = 0  # HTTP requests that are being answered
        self._no_handlers = asyncio.Event()
        self._no_handlers.set()
        self._hurry = asyncio.Event()

    @property
    def max_model_len(self) -> int | None:
        """Tokens of the longest sequence, once that is known."""
        return self._loaded[0].info.max_model_len if self._loaded else None

    # Life

    async def serve(self, engine: Engine, loop: EngineLoop, codec: Codec) -> None:
        """Start the engine's thread, run one short request through everything, then admit."""
        self._loaded = (engine, loop, codec)
        loop.start()
        self.detail = "warming up"
        await self._warm_up(codec)
        self.metrics.loaded(engine.info, engine.stats, self.settings)
        self.phase = Phase.SERVING

    async def drain(self, seconds: float) -> bool:
        """Admit nothing more and let what runs finish. False where it took too long and was cut."""
        self.phase = Phase.DRAINING
        done = asyncio.ensure_future(self._no_handlers.wait())
        hurry = asyncio.ensure_future(self._hurry.wait())
        await asyncio.wait({done, hurry}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        hurry.cancel()
        if not done.done():
            self._fail_jobs(problem.unavailable("the server is shutting down", "shutting_down"))
            with suppress(TimeoutError):
                await asyncio.wait_for(done, _LAST_WORDS_SECONDS)
            return False
        return True

    def hurry(self) -> None:
        """End a running drain now."""
        self._hurry.set()

    async def fail(self, reason: str) -> None:
        """The engine is dead: end every request with an error, turn /health red."""
        self.phase = Phase.FAILED
        self.detail = reason
        self._fail_jobs(problem.internal(f"the engine has stopped: {reason}"))
        with suppress(TimeoutError):
            await asyncio.wait_for(self._no_handlers.wait(), _LAST_WORDS_SECONDS)

    def engine_failure(self) -> BaseException | None:
        return self._loaded[1].failed if self._loaded else None

    def health(self) -> str | None:
        """None when healthy, else the reason. Answered from memory: no lock, no engine call."""
        if self.phase is Phase.LOADING:
            return f"loading: {self.detail}"
        if self.phase is Phase.FAILED or (failure := self.engine_failure()) is not None:
            return f"the engine has stopped: {self.detail if self.phase is Phase.FAILED else failure!r}"
        assert self._loaded is not None
        loop = self._loaded[1]
        idle = time.monotonic() - loop.last_progress
        if loop.busy and idle > self.settings.stall_timeout:
            return f"stalled: work is queued, and no step has ended for {idle:.0f} s"
        return None

    def readiness(self) -> str | None:
        """None when new requests are wanted, else the reason."""
        return self.health() or ("draining" if self.phase is Phase.DRAINING else None)

    # Requests

    def admitting(self) -> tuple[Engine, Codec]:
        """The parts that a new request needs, else a 503."""
        if self._loaded is None or self.phase is Phase.LOADING:
            raise problem.unavailable(
                f"the model is not loaded yet ({self.detail})", "loading", retry_after=5
            )
        if self.phase is Phase.DRAINING:
            raise problem.unavailable("the server is shutting down", "shutting_down")
        if self.phase is Phase.FAILED:
            raise problem.unavailable(
                f"the engine has stopped: {self.detail}", "engine_failed", retry_after=10
            )
        engine, _, codec = self._loaded
        return engine, codec

    @contextmanager
    def answering(self) -> Iterator[None]:
        """Counts an HTTP request as running, so that a drain waits for its last byte."""
        self._handlers += 1
        self._no_handlers.clear()
        try:
            yield
        finally:
            self._handlers -= 1
            if not self._handlers:
                self._no_handlers.set()

    def submit(self, job: Job) -> None:
        assert self._loaded is not None
        loop = self._loaded[1]
        for choice in job.choices:
            self._in_flight[choice.request_id] = (job, choice)
            loop.submit(NewRequest(choice.request_id, choice.prompt, choice.params))

    def release(self, job: Job) -> None:
        """The handler is done with ``job``: whatever of it still runs is of no use to anyone."""
        for choice in job.choices:
            if self._in_flight.pop(choice.request_id, None) is not None:
                self._abort(choice.request_id)
                self.metrics.finished(job, choice, FinishReason.ABORT, time.monotonic())

    # From the engine

    def deliver(self, deltas: Sequence[TokenDelta], stats: EngineStats) -> None:
        """One step's outcome. Called on the engine's thread; one hop to the event loop a step, not a token."""
        with suppress(RuntimeError):  # the event loop has ended: nobody listens any more
            self._event_loop.call_soon_threadsafe(self._on_step, deltas, stats)

    def _on_step(self, deltas: Sequence[TokenDelta], stats: EngineStats) -> None:
        now = time.monotonic()
        self.metrics.step(stats)
        for delta in deltas:
            found = self._in_flight.get(delta.request_id)
            if found is not None:  # else a token that was under way when the request was aborted
                self._on_delta(*found, delta, now)

    def _on_delta(self, job: Job, choice: Choice, delta: TokenDelta, now: float) -> None:
        before = choice.tokens
        text = choice.take(delta)
        self.metrics.tokens(job, choice, choice.tokens - before, now)
        if delta.finish_reason in (FinishReason.ERROR, FinishReason.ABORT):
            job.fail(problem.internal(delta.error or "the engine could not finish this request"))
        else:
            job.put(Piece(choice.index, text, choice.finish_reason))
        if choice.finish_reason is not None:
            del self._in_flight[choice.request_id]
            self.metrics.finished(job, choice, choice.finish_reason, now)
            if delta.finish_reason is None:  # a stop string: the engine does not know that this is the end
                self._abort(choice.request_id)

    def _abort(self, request_id: str) -> None:
        if self._loaded is not None:
            self._loaded[1].abort(request_id)

    def _fail_jobs(self, reason: problem.Problem) -> None:
        for job, _ in list(self._in_flight.values()):
            job.fail(reason)

    async def _warm_up(self, codec: Codec) -> None:
        """The whole way once, before anyone waits for it; outside all request metrics."""
        params = SamplingParams(max_tokens=WARMUP_TOKENS, temperature=0, ignore_eos=True)
        choice = Choice(0, "warm-up", (0,) * 8, params, codec.text_stream())
        job = Job("warm-up", [choice], time.monotonic(), counted=False)
        self.submit(job)
        ended = asyncio.ensure_future(_exhaust(job))
        while not ended.done():
            await asyncio.wait({ended}, timeout=0.2)
            if (failure := self.engine_failure()) is not None:
                ended.cancel()
                raise failure
        await ended


async def _exhaust(job: Job) -> None:
    async for _ in job.pieces():
        pass
