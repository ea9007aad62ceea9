"""The sockets to listen on: IPv6 and IPv4 at once where the machine has both."""

from __future__ import annotations

import errno
import socket

from llmservice_engine.core.errors import InvalidSettings

BACKLOG = 1024
_NO_IPV6 = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL, errno.EPROTONOSUPPORT)


def sockets(host: str | None, port: int) -> list[socket.socket]:
    """Bound, listening sockets. Without ``host``: ``[::]`` for IPv6 and IPv4, or ``0.0.0.0`` where IPv6 is off.

    Raises:
        InvalidSettings: the address cannot be had; the message says why.
    """
    try:
        if host is None:
            return [_every_address(port)]
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        addresses = dict.fromkeys((family, address) for family, _, _, _, address in found)
        return [_bound(family, address, both=False) for family, address in addresses]
    except OSError as error:
        raise InvalidSettings(
            f"cannot listen on {host or 'every address'}, port {port}: {error.strerror or error}",
            hint="another process may hold the port: choose one with --port"
            if error.errno == errno.EADDRINUSE
            else "check --host and --port",
        ) from None


def _every_address(port: int) -> socket.socket:
    try:
        return _bound(socket.AF_INET6, ("::", port), both=True)
    except OSError as error:
        if error.errno not in _NO_IPV6:
            raise
        return _bound(socket.AF_INET, ("0.0.0.0", port), both=False)


def _bound(family: int, address: tuple[object, ...], *, both: bool) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if both else 1)
        sock.bind(address)
        sock.listen(BACKLOG)
        sock.setblocking(False)
    except OSError:
        sock.close()
        raise
    return sock
