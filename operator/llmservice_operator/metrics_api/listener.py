"""The TLS port: certificates change under it, and strangers cannot fill it.

A new certificate, or a new authority of the front proxy, holds for connections from then on: a second server accepts
from the same socket before the first one stops, so no connection is refused between the two.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import ssl
from collections.abc import Callable
from typing import Any, cast

from prometheus_client import Gauge

HANDSHAKE = 5.0  # seconds
STRANGERS = 64  # connections without a certificate of the front proxy's authority, at the same time
STRANGER_SECONDS = 30.0  # that one of them may last
BACKLOG = 256

STRANGE = Gauge("llmservice_metrics_api_strangers", "Connections that are not the API server's")

Factory = Callable[[], asyncio.Protocol]


class PortTaken(RuntimeError):
    """Something else listens there."""


class Listener:
    """Serves ``protocols`` on one port."""

    def __init__(self, port: int, protocols: Callable[[], asyncio.BaseProtocol]) -> None:
        """Raises PortTaken."""
        try:
            self._socket = _listening(port)
        except OSError as error:
            raise PortTaken(f"cannot listen on port {port}: {error.strerror}") from error
        self._protocols = cast(Factory, protocols)
        self._server: asyncio.Server | None = None
        self._strangers: set[asyncio.Transport] = set()

    @property
    def port(self) -> int:
        return int(self._socket.getsockname()[1])

    async def use(self, context: ssl.SSLContext) -> None:
        """Serve new connections with ``context``."""
        before = self._server
        self._server = await asyncio.get_running_loop().create_server(
            lambda: _Guarded(self._protocols(), self._strangers),
            sock=self._socket.dup(),
            ssl=context,
            ssl_handshake_timeout=HANDSHAKE,
            ssl_shutdown_timeout=1.0,
            backlog=BACKLOG,
        )
        if before is not None:
            before.close()

    def close(self) -> None:
        """Take no more connections."""
        if self._server is not None:
            self._server.close()
        with contextlib.suppress(OSError):
            self._socket.close()


class _Guarded(asyncio.Protocol):
    """Lets the API server's connections through, and few and short ones of everybody else.

    An HTTP server waits for the request of an open connection as long as it takes; somebody who opens thousands and
    says nothing would leave none for the API server.
    """

    def __init__(self, inner: asyncio.Protocol, strangers: set[asyncio.Transport]) -> None:
        self._inner = inner
        self._strangers = strangers
        self._refused = False
        self._end: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if not transport.get_extra_info("peercert"):
            if len(self._strangers) >= STRANGERS:
                self._refused = True
                self._transport.abort()
                return
            self._strangers.add(self._transport)
            STRANGE.set(len(self._strangers))
            loop = asyncio.get_running_loop()
            self._end = loop.call_later(STRANGER_SECONDS, self._transport.abort)
        self._inner.connection_made(transport)

    def connection_lost(self, error: Exception | None) -> None:
        if self._end is not None:
            self._end.cancel()
        if self._transport is not None:
            self._strangers.discard(self._transport)
            STRANGE.set(len(self._strangers))
        if not self._refused:
            self._inner.connection_lost(error)

    def data_received(self, data: bytes) -> None:
        if not self._refused:
            self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        return None if self._refused else self._inner.eof_received()

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()


def _listening(port: int) -> socket.socket:
    """On every address, of both families where the machine has both."""
    if socket.has_dualstack_ipv6():
        try:
            return socket.create_server(
                ("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=BACKLOG
            )
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise
    return socket.create_server(("", port), backlog=BACKLOG)


def peer(transport: Any) -> dict[str, Any] | None:
    """The certificate that a request's connection was made with; only where it was checked against an authority."""
    handle = transport.get_extra_info("ssl_object") if transport is not None else None
    found = handle.getpeercert() if handle is not None else None
    return found or None
