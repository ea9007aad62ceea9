"""The engine's thread: submit and abort from anywhere, survive a bad batch, say when it is over."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest
from llmservice_engine.core.outputs import EngineStats, FinishReason, TokenDelta
from llmservice_engine.core.request import NewRequest
from llmservice_engine.core.step import StepPlan, StepResult
from llmservice_engine.device import load
from llmservice_engine.device.load import Loaded
from llmservice_engine.device.model_runner import ModelRunner
from llmservice_engine.engine import Engine, EngineLoop
from llmservice_planner.settings import EngineSettings

from tests.engine.models import generating
from tests.engine.models.conftest import MakeCheckpoint

PATIENCE = 30  # s


class Client:
    """Collects what a loop delivers."""

    def __init__(self, engine: Engine) -> None:
        self.loop = EngineLoop(engine, self._deliver)
        self.deltas: list[TokenDelta] = []
        self.stats: list[EngineStats] = []
        self._came = threading.Condition()

    def _deliver(self, deltas: list[TokenDelta], stats: EngineStats) -> None:
        with self._came:
            self.deltas += deltas
            self.stats.append(stats)
            self._came.notify_all()

    def until(self, holds: Callable[[], bool]) -> None:
        with self._came:
            assert self._came.wait_for(holds, PATIENCE)

    def of(self, request_id: str) -> list[TokenDelta]:
        return [delta for delta in self.deltas if delta.request_id == request_id]

    def finished(self, request_id: str) -> FinishReason | None:
        own = self.of(request_id)
        return own[-1].finish_reason if own else None


@pytest.fixture
def loaded(checkpoint: MakeCheckpoint) -> Loaded:
    return load.load(EngineSettings(model=str(checkpoint()), dtype="float32"), lambda _: None)


@pytest.fixture
def client(loaded: Loaded) -> Iterator[Client]:
    client = Client(Engine(loaded.runner, loaded.info, EngineSettings(model="shared")))
    client.loop.start()
    yield client
    client.loop.stop()


def ask(name: str, tokens: int = 5, prompt: tuple[int, ...] = (1, 2, 3)) -> NewRequest:
    return NewRequest(name, prompt, generating.greedy(tokens))


def test_requests_from_several_threads_are_all_answered(client: Client) -> None:
    names = [f"request {n}" for n in range(24)]
    threads = [threading.Thread(target=client.loop.submit, args=(ask(name),)) for name in names]
    for thread in threads:
        thread.start()
    client.until(lambda: all(client.finished(name) is FinishReason.LENGTH for name in names))
    assert all(sum(len(d.token_ids) for d in client.of(name)) == 5 for name in names)
    assert client.loop.failed is None


def test_an_idle_loop_is_not_busy_and_takes_no_steps(client: Client) -> None:
    client.loop.submit(ask("a"))
    client.until(lambda: client.finished("a") is not None)
    deadline = time.monotonic() + PATIENCE
    while client.loop.busy and time.monotonic() < deadline:
        time.sleep(0.01)
    steps = client.stats[-1].steps
    time.sleep(0.2)
    assert not client.loop.busy
    assert client.stats[-1].steps == steps


def test_an_aborted_request_stops_and_frees_its_blocks(client: Client) -> None:
    client.loop.submit(ask("long", tokens=120))
    client.until(lambda: bool(client.of("long")))
    client.loop.abort("long")
    client.loop.submit(ask("after"))
    client.until(lambda: client.finished("after") is not None)
    assert client.finished("long") is None
    assert client.stats[-1].running == 0
    assert client.stats[-1].kv_usage == 0


def test_a_request_that_cannot_be_served_is_answered_with_the_reason(client: Client) -> None:
    client.loop.submit(ask("too long", tokens=500))
    client.loop.submit(ask("fine"))
    client.until(lambda: client.finished("fine") is FinishReason.LENGTH)
    (refused,) = client.of("too long")
    assert refused.finish_reason is FinishReason.REFUSED
    assert "503 tokens" in str(refused.error)


def test_stopping_answers_what_still_runs(client: Client) -> None:
    client.loop.submit(ask("long", tokens=125))
    client.until(lambda: bool(client.of("long")))
    client.loop.stop()
    assert client.finished("long") in (FinishReason.ABORT, FinishReason.LENGTH)


def test_progress_is_told_in_monotonic_seconds(client: Client) -> None:
    before = time.monotonic()
    client.loop.submit(ask("a"))
    client.until(lambda: client.finished("a") is not None)
    assert before <= client.loop.last_progress <= time.monotonic()


class FailingRunner(ModelRunner):
    """The real runner, but for steps that hold a cursed request."""

    def run(self, plan: StepPlan) -> StepResult:
        if any("cursed" in chunk.request_id for chunk in plan.chunks):
            raise RuntimeError("out of luck")
        return super().run(plan)


@pytest.fixture
def failing(loaded: Loaded) -> Iterator[Client]:
    runner = FailingRunner(loaded.runner._model, loaded.runner._attention, "cpu")
    client = Client(Engine(runner, loaded.info, EngineSettings(model="shared")))
    client.loop.start()
    yield client
    client.loop.stop()


def test_a_step_that_fails_ends_its_requests_with_an_error_and_the_loop_goes_on(failing: Client) -> None:
    failing.loop.submit(ask("cursed"))
    failing.until(lambda: failing.finished("cursed") is FinishReason.ERROR)
    assert "RuntimeError" in str(failing.of("cursed")[-1].error)
    failing.loop.submit(ask("blessed"))
    failing.until(lambda: failing.finished("blessed") is FinishReason.LENGTH)
    assert failing.loop.failed is None


def test_failures_with_good_steps_between_them_never_end_the_loop(failing: Client) -> None:
    for number in range(5):
        for kind in ("cursed", "blessed"):
            name = f"{kind} {number}"
            failing.loop.submit(ask(name, tokens=1))
            failing.until(lambda name=name: failing.finished(name) is not None)  # type: ignore[misc]
    assert failing.loop.failed is None


def test_a_loop_whose_every_step_fails_says_so(failing: Client) -> None:
    for number in range(3):
        failing.loop.submit(ask(f"cursed {number}"))
        if number < 2:
            failing.until(lambda name=f"cursed {number}": failing.finished(name) is not None)  # type: ignore[misc]
    deadline = time.monotonic() + PATIENCE
    while failing.loop.failed is None and time.monotonic() < deadline:
        time.sleep(0.01)
    assert isinstance(failing.loop.failed, RuntimeError)
