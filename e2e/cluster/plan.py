"""What the supervisor runs: stages, one after the other; within a stage everything starts at once."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from e2e.cluster import state


@dataclass(frozen=True, slots=True)
class Component:
    """A process that runs for good, and how to see that it is ready; or a command that has to end with 0."""

    name: str
    argv: tuple[str, ...]
    ready: str | None = None  # a URL that answers 200, or the path of a socket that accepts
    ends: bool = False  # a command of the start-up


@dataclass(frozen=True, slots=True)
class Node:
    """What the supervisor sets up in the private namespace before the first stage."""

    address: str  # with the prefix length
    gateway: str
    bridge_address: str  # with the prefix length
    cgroup: str
    kubelet: str  # the folder to mount at /var/lib/kubelet


@dataclass(frozen=True, slots=True)
class Plan:
    name: str
    stages: tuple[tuple[Component, ...], ...]
    node: Node | None = None

    def write(self, path: Path) -> None:
        state.write_json(path, asdict(self))


def read(path: Path) -> Plan:
    raw = json.loads(path.read_text())
    stages = tuple(
        tuple(Component(one["name"], tuple(one["argv"]), one["ready"], one["ends"]) for one in stage)
        for stage in raw["stages"]
    )
    return Plan(raw["name"], stages, Node(**raw["node"]) if raw["node"] else None)
