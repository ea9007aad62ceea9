"""C39: IPv6 and IPv4 at once, IPv4 alone where IPv6 is off, or the address that is asked for."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest
from llmservice_engine.api import listen
from llmservice_engine.core.errors import InvalidSettings

# An address family that the kernel refuses, as where IPv6 is off: seen by nothing but this process.
WITHOUT_IPV6 = """
import errno, socket
real = socket.socket
def only_ipv4(family=-1, *rest):
    if family == socket.AF_INET6:
        raise OSError(errno.EAFNOSUPPORT, "Address family not supported by protocol")
    return real(family, *rest)
socket.socket = only_ipv4
from llmservice_engine.api import listen
(found,) = listen.sockets(None, 0)
print(found.getsockname()[0])
"""


def reachable(address: str, port: int) -> bool:
    try:
        with socket.create_connection((address, port), timeout=2):
            return True
    except OSError:
        return False


def test_by_default_both_families_are_served_on_one_port() -> None:
    (sock,) = listen.sockets(None, 0)
    with sock:
        port = sock.getsockname()[1]
        assert reachable("127.0.0.1", port)
        if sock.family is socket.AF_INET6:
            assert reachable("::1", port)


def test_where_ipv6_is_off_ipv4_is_served() -> None:
    out = subprocess.run([sys.executable, "-c", WITHOUT_IPV6], capture_output=True, text=True, check=True)
    assert out.stdout == "0.0.0.0\n"


def test_a_host_narrows_it() -> None:
    (sock,) = listen.sockets("127.0.0.1", 0)
    with sock:
        assert sock.getsockname()[0] == "127.0.0.1"


def test_an_address_that_is_not_ours_is_refused() -> None:
    with pytest.raises(InvalidSettings, match=r"192\.0\.2\.1"):
        listen.sockets("192.0.2.1", 0)
