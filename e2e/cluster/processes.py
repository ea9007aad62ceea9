"""The processes of a cluster, found by the mark in their environment: nothing can be forgotten."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from e2e.cluster import state
from e2e.cluster.errors import ClusterError


def find(folder: Path) -> dict[int, str]:
    """Process id (of this machine) → component, or ``""`` for the supervisor and what holds it."""
    mark = f"{state.MARK}={folder}".encode()
    prefix = f"{state.COMPONENT_MARK}=".encode()
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal() or int(entry.name) == os.getpid():
            continue
        try:
            environment = (entry / "environ").read_bytes().split(b"\0")
        except OSError:
            continue  # it has ended, or is another user's
        if mark in environment:
            named = next((one.removeprefix(prefix) for one in environment if one.startswith(prefix)), b"")
            found[int(entry.name)] = named.decode()
    return found


def pid_of(folder: Path, component: str) -> int:
    """The component's first process.

    Raises:
        ClusterError: it does not run.
    """
    found = [pid for pid, name in find(folder).items() if name == component]
    if not found:
        raise ClusterError(f"{component} does not run in {folder.name}")
    return min(found)


def end_all(folder: Path, within: float = 20.0) -> None:
    """Kill them and wait until they are gone: the data is thrown away, so nobody need say goodbye."""
    deadline = time.monotonic() + within
    while found := find(folder):
        # the outermost first: a supervisor that lives would restart what was killed
        for pid in sorted(found, key=lambda pid: (found[pid] != "", pid)):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        if time.monotonic() > deadline:
            raise ClusterError(f"these processes do not end: {sorted(found)}")
        time.sleep(0.02)
