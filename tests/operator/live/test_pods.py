"""What pods tell over HTTP: asked seldom, believed when it is whole, missed by nobody."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from llmservice_operator.api import contract, copies
from llmservice_operator.live.pods import AGAIN, Pods, figures

METRICS = """\
# TYPE llmservice:memory_bytes gauge
llmservice:memory_bytes{kind="weights"} 2.69e+08
llmservice:memory_bytes{kind="kv_cache"} 1.0e+09
llmservice:memory_bytes{kind="activations"} 5.0e+07
llmservice:memory_bytes{kind="available"} 3.0e+09
llmservice:memory_bytes{kind="overhead"} 3.0e+08
# TYPE llmservice:kv_cache_tokens gauge
llmservice:kv_cache_tokens 43000.0
# TYPE llmservice:kv_cache_sequences gauge
llmservice:kv_cache_sequences 5.2
"""


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def pod(uid: str = "p1", **status: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": uid, "uid": uid},
        "status": {"phase": "Running", "podIP": "127.0.0.1"} | status,
    }


@asynccontextmanager
async def telling(monkeypatch: pytest.MonkeyPatch, texts: dict[str, str]) -> AsyncIterator[list[str]]:
    """A pod's server on loopback; the requests that it got."""
    asked: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(request.path)
        return web.Response(text=texts.get(request.path, ""), status=200 if request.path in texts else 404)

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    monkeypatch.setattr(contract, "PORT", port)
    monkeypatch.setattr(copies, "PROGRESS_PORT", port)
    yield asked
    await runner.cleanup()


async def test_a_copy_is_asked_how_far_it_is_at_most_every_few_seconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock()
    async with (
        telling(monkeypatch, {"/progress": '{"bytesDone": 7, "bytesTotal": 9}'}) as asked,
        aiohttp.ClientSession() as session,
    ):
        pods = Pods(session, clock)
        assert [await pods.copied([pod()]) for _ in range(3)] == [7, 7, 7]
        assert asked == ["/progress"]
        clock.now += AGAIN
        await pods.copied([pod()])
        assert len(asked) == 2


async def test_an_engine_is_asked_until_it_has_told(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    async with telling(monkeypatch, {"/metrics": METRICS}) as asked, aiohttp.ClientSession() as session:
        pods = Pods(session, clock)
        told = await pods.memory([pod()])
        assert told is not None
        assert (told["weights"], told["kvTokens"], told["verdict"]) == (269_000_000, 43_000, "Fits")
        clock.now += 1000
        assert await pods.memory([pod()]) == told
        assert asked == ["/metrics"]
        pods.keep([])
        await pods.memory([pod()])
        assert len(asked) == 2


@pytest.mark.parametrize("text", ["", "{", "[]", '{"bytesDone": "x"}', "5"])
async def test_nonsense_is_no_answer(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    async with telling(monkeypatch, {"/progress": text}), aiohttp.ClientSession() as session:
        assert await Pods(session, Clock()).copied([pod()]) is None


async def test_a_pod_that_cannot_be_reached_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies, "PROGRESS_PORT", 1)
    async with aiohttp.ClientSession() as session:
        assert (
            await Pods(session, Clock()).copied([pod(), pod("p2", podIP=None), pod("p3", phase="Pending")])
            is None
        )


@pytest.mark.parametrize(
    "text", ["", "vllm:num_requests_running 0\n", "{{{", METRICS.replace("kv_cache_tokens", "other")]
)
def test_another_engines_metrics_hold_no_figures(text: str) -> None:
    assert figures(text) is None


def test_a_cache_of_one_sequence_is_tight() -> None:
    found = figures(METRICS.replace("5.2", "1.4"))
    assert found is not None
    assert found["verdict"] == "Tight"
