"""Pods that tell, hang, lie and send without end: HTTP servers of this machine."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from llmservice_operator.metrics_api import scraper
from llmservice_operator.metrics_api.pods import Pod
from llmservice_operator.metrics_api.scraper import Scraper

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]
TRUE = "vllm:num_requests_waiting 4\nvllm:num_requests_running 1\n"


def pod(name: str = "a", address: str = "127.0.0.1") -> Pod:
    return Pod(f"uid-{name}", "ns", name, "chat", address)


async def tells(_: web.Request) -> web.Response:
    return web.Response(text=TRUE)


async def hangs(_: web.Request) -> web.Response:
    await asyncio.sleep(60)
    return web.Response(text=TRUE)


async def drips(request: web.Request) -> web.StreamResponse:
    """A byte now and then: no pause is long enough for a limit on pauses."""
    answer = web.StreamResponse()
    await answer.prepare(request)
    for letter in TRUE:
        await asyncio.sleep(0.2)
        await answer.write(letter.encode())
    return answer


async def floods(request: web.Request) -> web.StreamResponse:
    answer = web.StreamResponse()
    await answer.prepare(request)
    for _ in range(1000):
        await answer.write(b"# nothing\n" * 10_000)
    await answer.write(TRUE.encode())
    return answer


async def bursts(_: web.Request) -> web.Response:
    """Ten megabytes of zeros in ten kilobytes."""
    answer = web.Response(body=b"0" * 10_000_000)
    answer.enable_compression(web.ContentCoding.gzip)
    return answer


async def promises(request: web.Request) -> web.StreamResponse:
    """200 megabytes, as its header says truly."""
    answer = web.StreamResponse(headers={"Content-Length": str(200 * 2**20)})
    await answer.prepare(request)
    for _ in range(200):
        await answer.write(b"#" * (2**20 - 1) + b"\n")
    return answer


async def has_one_long_line(_: web.Request) -> web.Response:
    return web.Response(text="#" * 1_000_000 + "\n" + TRUE)


async def has_a_million_engines(_: web.Request) -> web.Response:
    return web.Response(text='vllm:num_requests_waiting{engine="0"} 4\n' * 50_000)


async def has_a_giant_header(_: web.Request) -> web.Response:
    return web.Response(text=TRUE, headers={"X-Giant": "x" * 100_000})


async def is_a_web_page(_: web.Request) -> web.Response:
    return web.Response(text="<html>502 Bad Gateway</html>" * 1000, content_type="text/html")


async def packs(_: web.Request) -> web.Response:
    answer = web.Response(text=TRUE)
    answer.enable_compression(web.ContentCoding.gzip)
    return answer


async def redirects(request: web.Request) -> web.Response:
    raise web.HTTPFound(f"http://{request.host}/secret")


async def lies(_: web.Request) -> web.Response:
    return web.Response(text="vllm:num_requests_waiting -7\n")


async def is_another(_: web.Request) -> web.Response:
    return web.Response(text=TRUE, status=404)


@asynccontextmanager
async def asking(answer: Answer, clock: Callable[[], float] = time.monotonic) -> AsyncIterator[Scraper]:
    """A scraper whose pods all answer like that; ``asked`` of the pods is counted by the caller."""
    app = web.Application()
    app.router.add_get("/metrics", answer)
    app.router.add_get("/secret", tells)
    server = TestServer(app, host="0.0.0.0")
    await server.start_server()
    assert server.port is not None
    async with scraper.session() as session:
        yield Scraper(session, server.port, clock)
    await server.close()


async def test_a_pod_that_tells_is_read_with_the_time_of_asking() -> None:
    async with asking(tells) as asks:
        (answer,) = await asks.ask([pod()])
    assert answer.reading == {"num_requests_waiting": 4, "num_requests_in_flight": 5}


BAD = [hangs, drips, floods, bursts, promises, has_one_long_line, has_a_million_engines, has_a_giant_header,
       is_a_web_page, packs, redirects, lies, is_another]  # fmt: skip


@pytest.mark.parametrize("bad", BAD)
async def test_a_pod_that_does_not_tell_in_time_and_truly_does_not_answer(bad: Answer) -> None:
    began = time.monotonic()
    async with asking(bad) as asks:
        assert await asks.ask([pod()]) == []
        assert time.monotonic() - began < scraper.LIMIT + 1.5


async def test_beside_all_of_these_the_others_are_read_and_little_is_kept() -> None:
    """Each pod has an address of its own, by which the server knows how to misbehave."""

    async def by_address(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        number = int(request.transport.get_extra_info("sockname")[0].rpartition(".")[2])
        return await (BAD[number - 1] if number <= len(BAD) else tells)(request)

    pods = [pod(str(number), f"127.0.0.{number}") for number in range(1, 3 * len(BAD) + 1)]
    async with asking(by_address) as asks:
        began = time.monotonic()
        answers = await asks.ask(pods)
        assert time.monotonic() - began < scraper.LIMIT + 1.5
    assert [answer.reading["num_requests_waiting"] for answer in answers] == [4] * 2 * len(BAD)


async def test_lines_that_come_in_pieces_among_thousands_of_others_are_read() -> None:
    others = "# HELP http_requests Of all kinds.\nhttp_requests 9\n" * 20_000

    async def tells_slowly(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        for piece in (
            others,
            "vllm:num_req",
            "uests_waiting 4\nht",
            "tp 1\n" + others,
            "vllm:num_requests_running 1",
        ):
            await answer.write(piece.encode())
            await asyncio.sleep(0.01)
        return answer

    async with asking(tells_slowly) as asks:
        (answer,) = await asks.ask([pod()])
    assert answer.reading == {"num_requests_waiting": 4, "num_requests_in_flight": 5}


async def test_a_pod_that_nobody_listens_at_does_not_answer() -> None:
    async with scraper.session() as session:
        assert await Scraper(session, port=9).ask([pod()]) == []


async def test_each_pod_is_asked_once_an_interval_however_many_ask() -> None:
    now, asked = 100.0, 0

    async def counts(request: web.Request) -> web.Response:
        nonlocal asked
        asked += 1
        await asyncio.sleep(0.05)
        return await tells(request)

    async with asking(counts, lambda: now) as asks:
        pods = [pod("a"), pod("b")]
        await asyncio.gather(*(asks.ask(pods) for _ in range(50)))
        assert asked == 2
        now += scraper.INTERVAL - 0.1
        await asks.ask(pods)
        assert asked == 2
        await asks.ask([*pods, pod("new")])
        assert asked == 3, "a pod that has come since is asked at once"
        now += 0.2
        await asks.ask(pods)
        assert asked == 5


async def test_a_silent_pod_is_not_asked_again_at_once_either() -> None:
    asked = 0

    async def counts(request: web.Request) -> web.Response:
        nonlocal asked
        asked += 1
        return await lies(request)

    async with asking(counts) as asks:
        for _ in range(3):
            assert await asks.ask([pod()]) == []
    assert asked == 1


async def test_hanging_pods_are_waited_for_together() -> None:
    began = time.monotonic()
    async with asking(hangs) as asks:
        # Of one host only so many connections are open at a time; these are different ones.
        pods = [pod(str(number), f"127.0.0.{number}") for number in range(1, 40)]
        assert await asks.ask(pods) == []
    assert time.monotonic() - began < scraper.LIMIT + 1.5


async def test_successive_figures_of_two_replicas_never_go_back() -> None:
    """The autoscaler asks every 15 s, whichever replica: each has a cache of its own, and both are asked meanwhile."""
    now = 0.0

    async def tells_the_time(_: web.Request) -> web.Response:
        return web.Response(text=f"vllm:num_requests_waiting {now}\n")

    async with asking(tells_the_time, lambda: now) as one, asking(tells_the_time, lambda: now) as other:
        said = []
        for step in range(40):
            now = step * 1.0
            replicas = (one, other) if step % 2 else (other, one)
            if step % 3 == 0:
                await replicas[0].ask([pod()])  # somebody else's question
            if step % 15 == 0:
                (answer,) = await replicas[1].ask([pod()])
                said.append(answer.reading["num_requests_waiting"])
    assert said == sorted(said)
    assert len(set(said)) == len(said), "each time a newer one"
