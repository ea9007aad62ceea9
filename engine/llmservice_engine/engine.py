"""The engine: requests in, tokens out, one step at a time; and the thread that steps it."""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections import deque
from collections.abc import Callable

from llmservice_planner.settings import EngineSettings

from llmservice_engine.core import request
from llmservice_engine.core.errors import RequestError, RequestTooLong
from llmservice_engine.core.outputs import EngineInfo, EngineStats, FinishReason, TokenDelta
from llmservice_engine.core.request import NewRequest
from llmservice_engine.core.scheduler import Scheduler
from llmservice_engine.core.step import Failure, StepPlan, StepResult
from llmservice_engine.device.load import load
from llmservice_engine.device.model_runner import ModelRunner

log = logging.getLogger("llmservice.engine")

_FAILURES_IN_A_ROW = 3  # one bad batch is an accident; so many, with no step between them, are not

Deliver = Callable[[list[TokenDelta], EngineStats], None]


class Engine:
    """One model, many requests. Not thread-safe: one thread adds, aborts and steps; anyone may read the rest."""

    def __init__(self, runner: ModelRunner, info: EngineInfo, settings: EngineSettings) -> None:
        self.info = info
        self._runner = runner
        self._scheduler = Scheduler(
            blocks=info.blocks,
            block_size=info.block_size,
            max_num_seqs=settings.max_num_seqs,
            max_num_batched_tokens=settings.max_num_batched_tokens,
        )
        self.max_logprobs = settings.max_logprobs
        self._seeds = itertools.count(settings.seed << 32)  # for requests that bring none
        self._failures = 0

    @classmethod
    def load(cls, settings: EngineSettings, progress: Callable[[str], None]) -> Engine:
        """Load the model that ``settings`` name. ``progress`` is told what is being done.

        Raises:
            StartupError: with figures, and the next move.
        """
        loaded = load(settings, progress)
        return cls(loaded.runner, loaded.info, settings)

    @property
    def has_work(self) -> bool:
        return self._scheduler.has_work

    def stats(self) -> EngineStats:
        return self._scheduler.stats()

    def check(self, prompt_tokens: int, max_tokens: int) -> None:
        """Whether such a request can be served at all. Any thread may ask.

        Raises:
            RequestTooLong: prompt and output exceed the longest sequence, or the whole KV cache.
        """
        wanted = prompt_tokens + max_tokens
        cache = self.info.blocks * self.info.block_size
        limit = min(self.info.max_model_len, cache)
        if wanted > limit:
            what = "the longest sequence" if limit == self.info.max_model_len else "the whole KV cache"
            raise RequestTooLong(
                f"{prompt_tokens} prompt tokens and {max_tokens} output tokens are {wanted} tokens, "
                f"{what} is {limit} tokens",
                hint="shorten the prompt"
                if prompt_tokens >= limit
                else f"ask for at most {limit - prompt_tokens} tokens",
                figures={"promptTokens": prompt_tokens, "maxTokens": max_tokens, "limitTokens": limit},
            )

    def add(self, new: NewRequest) -> None:
        """Queue a request.

        Raises:
            RequestError: it can never be served, or its id is taken; other requests are not affected.
        """
        prompt = new.prompt_token_ids
        self.check(len(prompt), new.params.max_tokens)
        if not prompt or min(prompt) < 0 or max(prompt) >= self.info.vocabulary:
            raise RequestError(f"a prompt is 1 or more token ids from 0 to {self.info.vocabulary - 1}")
        if new.request_id in self._scheduler:
            raise RequestError(f"request id {new.request_id!r} is in use")
        self._scheduler.add(request.start(new, next(self._seeds)))

    def abort(self, request_id: str) -> None:
        """Forget a request; nothing more is said about it. A finished or unknown one is no error."""
        self._scheduler.abort(request_id)

    def abort_all(self) -> list[TokenDelta]:
        """Forget every request, and say so of each."""
        ids = self._scheduler.request_ids
        for request_id in ids:
            self._scheduler.abort(request_id)
        return [TokenDelta(request_id, (), FinishReason.ABORT) for request_id in ids]

    def step(self) -> list[TokenDelta]:
        """Advance by one forward pass. Call while there is work.

        Raises:
            Exception: step after step has failed; the engine is of no more use.
        """
        plan = self._scheduler.schedule()
        result = self._run(plan)
        return self._scheduler.update(plan, result)

    def _run(self, plan: StepPlan) -> StepResult:
        try:
            result = self._runner.run(plan)
        except Exception as error:
            self._failures += 1
            if self._failures >= _FAILURES_IN_A_ROW:
                raise
            log.exception("a step of %d sequences has failed", len(plan.chunks))
            failure = Failure(f"the engine could not compute this request: {type(error).__name__}")
            return StepResult({}, {chunk.request_id: failure for chunk in plan.chunks})
        self._failures = 0
        return result


class EngineLoop:
    """A thread that steps an engine while there is work, and sleeps otherwise.

    ``deliver`` is called on that thread, once a step that has something to say.
    """

    def __init__(self, engine: Engine, deliver: Deliver) -> None:
        self._engine = engine
        self._deliver = deliver
        self._inbox: deque[NewRequest | str] = deque()  # a string: the id of a request to abort
        self._wake = threading.Condition()
        self._stopping = False
        self._thread = threading.Thread(target=self._live, name="engine", daemon=True)
        self.last_progress = time.monotonic()  # s
        self.failed: BaseException | None = None

    @property
    def busy(self) -> bool:
        """Whether work is queued or under way."""
        return bool(self._inbox) or self._engine.has_work

    def start(self) -> None:
        self._thread.start()

    def submit(self, new: NewRequest) -> None:
        """Queue a request; one that cannot be served is answered with a delta that says so."""
        self._put(new)

    def abort(self, request_id: str) -> None:
        """Forget a request soon; a token that is under way may still be delivered."""
        self._put(request_id)

    def stop(self) -> None:
        """End the thread after the step under way; requests that still run are answered with an abort delta."""
        with self._wake:
            self._stopping = True
            self._wake.notify()
        if self._thread.is_alive():
            self._thread.join()

    def _put(self, message: NewRequest | str) -> None:
        with self._wake:
            if not self.busy:
                self.last_progress = time.monotonic()  # idle time is no stall
            self._inbox.append(message)
            self._wake.notify()

    def _live(self) -> None:
        try:
            while self._read_inbox():
                if self._engine.has_work:
                    self._say(self._engine.step())
                    self.last_progress = time.monotonic()
            self._say(self._engine.abort_all())
        except BaseException as error:  # whoever watches the loop decides
            log.exception("the engine's thread ends")
            self.failed = error

    def _read_inbox(self) -> bool:
        """Take in what has come, waiting for it where there is nothing to do. False when it is time to stop."""
        with self._wake:
            self._wake.wait_for(lambda: self._stopping or self.busy)
            messages = list(self._inbox)
            refused = [delta for message in messages if (delta := self._take(message)) is not None]
            self._inbox.clear()
        self._say(refused)
        return not self._stopping

    def _take(self, message: NewRequest | str) -> TokenDelta | None:
        """Hand a message to the engine. Returns the answer where it is a request that cannot be served."""
        if isinstance(message, str):
            self._engine.abort(message)
            return None
        try:
            self._engine.add(message)
        except RequestError as error:
            return TokenDelta(message.request_id, (), FinishReason.REFUSED, error.message)
        return None

    def _say(self, deltas: list[TokenDelta]) -> None:
        if deltas:
            self._deliver(deltas, self._engine.stats())
