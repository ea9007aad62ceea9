"""Ports and subnets that nobody on this machine uses yet."""

from __future__ import annotations

import ipaddress
import socket
import subprocess
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass

from e2e.cluster.errors import ClusterError

LINKS = ipaddress.IPv4Network("10.213.0.0/16")  # cut into /30s: one veth pair each
POD_SUBNET = "10.244.0.0/24"  # the same in every cluster: each has a network namespace of its own
POD_GATEWAY = "10.244.0.1"
SERVICE_SUBNET = "10.96.0.0/16"
FIRST_SERVICE_ADDRESS = "10.96.0.1"
ROUTE_TYPES = ("local", "broadcast", "unreachable", "blackhole", "prohibit", "throw")


@dataclass(frozen=True, slots=True)
class Link:
    """The veth pair between this machine and a node."""

    subnet: str
    host_address: str
    node_address: str

    @classmethod
    def of(cls, address: str) -> Link:
        """The link that ``address`` with its prefix length is on."""
        subnet = ipaddress.IPv4Network(address, strict=False)
        host, node = subnet.hosts()
        return cls(str(subnet), str(host), str(node))

    @property
    def device(self) -> str:
        """The host's end, e.g. ``llm-213-0-4``; at most 15 characters, as Linux wants."""
        return "llm-" + "-".join(self.subnet.split("/")[0].split(".")[1:])


def free_ports(count: int) -> list[int]:
    """Distinct ports of 127.0.0.1, free at this moment."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]


def free_link(used: Iterable[str], within: ipaddress.IPv4Network = LINKS) -> Link:
    """The first /30 that overlaps none of ``used`` (networks or addresses).

    Raises:
        ClusterError: every one overlaps.
    """
    taken = [ipaddress.IPv4Network(one, strict=False) for one in used]
    for subnet in within.subnets(new_prefix=30):
        if not any(subnet.overlaps(network) for network in taken):
            return Link.of(str(subnet))
    raise ClusterError(f"no free subnet left in {within} for the link to the node")


def networks_in_use() -> list[str]:
    """The IPv4 networks that this machine routes, the default route aside."""
    shown = subprocess.run(
        ["ip", "-4", "route", "show", "table", "all"], capture_output=True, text=True, check=True
    )
    found = []
    for line in shown.stdout.splitlines():
        words = line.split()
        word = words[1] if words[0] in ROUTE_TYPES else words[0]
        if word != "default":
            found.append(word)
    return found
