"""Certificates that change under an open port, and strangers that fill it."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from dataclasses import replace
from datetime import UTC, datetime

import aiohttp
import pytest
from llmservice_operator.metrics_api import certificate, listener
from llmservice_operator.metrics_api.listener import Listener, PortTaken

from e2e.cluster import pki
from tests.operator.metrics_api.conftest import SERVICE, Front

ROOT = "/apis/custom.metrics.k8s.io"


async def shown(front: Front) -> bytes:
    """The certificate that a new connection is shown."""
    _, writer = await asyncio.open_connection(
        "127.0.0.1", front.listener.port, ssl=front.tls(), server_hostname=SERVICE
    )
    found = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    return bytes(found)


async def test_a_renewed_certificate_is_shown_without_a_restart_and_without_a_refused_connection(
    front: Front,
) -> None:
    before = await shown(front)
    failed: list[object] = []
    stop = asyncio.Event()

    async def keep_asking() -> int:
        asked = 0
        while not stop.is_set():
            status, body = await front.proxied(ROOT, "system:kube-aggregator")
            asked += 1
            if status != 200:
                failed.append(body)
        return asked

    asking = [asyncio.create_task(keep_asking()) for _ in range(4)]
    for _ in range(5):
        await asyncio.sleep(0.1)
        lost = replace(front.material, key=b"")  # what cannot serve is made anew under the same authority
        front.material = certificate.current(lost, (SERVICE,), datetime.now(UTC))
        await front.serve()
    stop.set()
    assert sum(await asyncio.gather(*asking)) > 20
    assert not failed
    assert await shown(front) != before


async def test_after_a_rotation_of_the_front_proxys_authority_only_the_new_one_is_believed(
    front: Front,
) -> None:
    old = front.proxy_authority
    front.proxy_authority = pki.authority("front-proxy-ca")
    await front.serve()
    assert (await front.proxied(ROOT, "system:kube-aggregator"))[0] == 200
    with pytest.raises((aiohttp.ClientError, OSError)):
        await front.get(ROOT, front.tls(old, "front-proxy-client"), X_Remote_User="x")


async def test_an_open_connection_lives_through_a_renewal(front: Front) -> None:
    url = f"https://127.0.0.1:{front.listener.port}{ROOT}"
    tls = front.tls(front.proxy_authority)
    async with aiohttp.ClientSession(headers={"X-Remote-User": "x"}) as session:
        for _ in range(2):
            async with session.get(url, ssl=tls, server_hostname=SERVICE) as answer:
                assert answer.status == 200
                await answer.read()
            await front.serve()


async def test_strangers_that_say_nothing_leave_room_for_the_api_server(front: Front) -> None:
    writers = []
    for _ in range(listener.STRANGERS + 20):
        try:
            _, writer = await asyncio.open_connection(
                "127.0.0.1", front.listener.port, ssl=front.tls(), server_hostname=SERVICE
            )
        except (OSError, ssl.SSLError):
            continue
        writers.append(writer)
    await asyncio.sleep(0.1)
    assert listener.STRANGE._value.get() == listener.STRANGERS
    assert (await front.proxied(ROOT, "system:kube-aggregator"))[0] == 200
    for writer in writers:
        writer.close()


async def test_a_stranger_may_not_stay(front: Front, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "STRANGER_SECONDS", 0.2)
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", front.listener.port, ssl=front.tls(), server_hostname=SERVICE
    )
    with pytest.raises((ConnectionError, ssl.SSLError, asyncio.IncompleteReadError)):
        await asyncio.wait_for(reader.readexactly(1), 5)
    writer.close()


async def test_half_a_handshake_blocks_nobody(front: Front) -> None:
    half = [await asyncio.open_connection("127.0.0.1", front.listener.port) for _ in range(100)]
    assert (await front.proxied(ROOT, "system:kube-aggregator"))[0] == 200
    for _, writer in half:
        writer.close()


async def test_half_a_handshake_is_ended_in_time(front: Front, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "HANDSHAKE", 0.2)
    await front.serve()
    half = [await asyncio.open_connection("127.0.0.1", front.listener.port) for _ in range(200)]
    for _, writer in half[::2]:
        writer.write(b"\x16\x03\x01\x02\x00")  # the beginning of a greeting
    ends = await asyncio.wait_for(
        asyncio.gather(*(reader.read() for reader, _ in half), return_exceptions=True), 10
    )
    assert len(ends) == 200
    assert (await front.proxied(ROOT, "system:kube-aggregator"))[0] == 200


async def test_a_request_that_drips_for_ever_is_ended(front: Front, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "STRANGER_SECONDS", 0.5)
    _, writer = await stranger(front)
    writer.write(b"GET / HTTP/1.1\r\n")

    async def drip() -> None:
        while not writer.transport.is_closing():
            writer.write(b"X")
            await asyncio.sleep(0.02)

    await asyncio.wait_for(drip(), 10)
    assert (await front.proxied(ROOT, "system:kube-aggregator"))[0] == 200


@pytest.mark.parametrize(
    "said",
    [b"X-Giant: " + b"x" * 100_000 + b"\r\n", b"".join(b"X-%d: y\r\n" % number for number in range(10_000))],
    ids=["one giant header", "ten thousand headers"],
)
async def test_giant_headers_get_a_refusal_or_an_end(front: Front, said: bytes) -> None:
    reader, writer = await stranger(front)
    writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n" + said + b"\r\n")
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        answer = await asyncio.wait_for(reader.read(), 10)
        assert answer.startswith(b"HTTP/1.0 400") or not answer
    assert (await front.proxied(ROOT, "system:kube-aggregator"))[0] == 200


async def stranger(front: Front) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection(
        "127.0.0.1", front.listener.port, ssl=front.tls(), server_hostname=SERVICE
    )


async def test_a_port_that_is_taken_says_so(front: Front) -> None:
    with pytest.raises(PortTaken, match=str(front.listener.port)):
        Listener(front.listener.port, asyncio.Protocol)
