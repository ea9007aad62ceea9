"""What this process may use: memory in bytes, processors in threads. A container's limits count."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
PROC = Path("/proc")


def limit(proc: Path = PROC, cgroups: Path = CGROUPS) -> int:
    """Bytes that this process may use: the smallest limit of its cgroup and those above, else the machine's memory."""
    machine = _field(proc / "meminfo", "MemTotal")
    limits = [
        int(text)
        for folder in _folders(proc, cgroups, "memory")
        for file in ("memory.max", "memory.limit_in_bytes")
        if (text := _read(folder / file)).isdecimal()
    ]
    return min([machine, *limits])


def process(proc: Path = PROC) -> int:
    """Bytes that this process holds for itself now: memory that is not backed by a file."""
    return _field(proc / "self" / "status", "RssAnon")


def threads(proc: Path = PROC, cgroups: Path = CGROUPS) -> int:
    """Processors that this process may keep busy: its affinity, cut to the cgroup's quota; at least 1.

    More threads than the quota pays for are stopped by the kernel in the middle of every step.
    """
    quotas = [quota for folder in _folders(proc, cgroups, "cpu") if (quota := _cpu_quota(folder)) is not None]
    return max(1, min([len(os.sched_getaffinity(0)), *(math.ceil(quota) for quota in quotas)]))


def has_instructions(*names: str, proc: Path = PROC) -> bool:
    """Whether the processor has any of the named instruction sets, as Linux spells them."""
    for line in _read(proc / "cpuinfo").splitlines():
        key, _, value = line.partition(":")
        if key.strip() in ("flags", "Features"):
            return not set(names).isdisjoint(value.split())
    return False


def _cpu_quota(folder: Path) -> float | None:
    """Processors' worth of time that a cgroup gives, or None where it sets no limit."""
    quota, period = "", ""
    if (folder / "cpu.max").is_file():  # version 2: "200000 100000", or "max 100000"
        quota, _, period = _read(folder / "cpu.max").partition(" ")
    elif (folder / "cpu.cfs_quota_us").is_file():  # version 1: -1 is no limit
        quota, period = _read(folder / "cpu.cfs_quota_us"), _read(folder / "cpu.cfs_period_us")
    return int(quota) / int(period) if quota.isdecimal() and period.isdecimal() and int(period) else None


def _folders(proc: Path, cgroups: Path, controller: str) -> Iterator[Path]:
    """This process's cgroup and all above it, for versions 1 and 2.

    In a container its own cgroup is usually mounted as the root, whatever path the kernel names.
    """
    for line in _read(proc / "self" / "cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers and controller not in controllers.split(","):
            continue
        root = cgroups / controllers if controllers else cgroups
        if controllers and not root.is_dir():
            root = cgroups / controller
        inner = root / path.lstrip("/")
        yield from (folder for folder in (inner, *inner.parents) if folder.is_relative_to(root))
    yield from (cgroups, cgroups / controller)


def _field(file: Path, name: str) -> int:
    """A figure in kB out of a file of ``name: figure kB`` lines, in bytes; 0 where it is not there."""
    for line in _read(file).splitlines():
        key, _, value = line.partition(":")
        if key == name:
            return int(value.split()[0]) * 1024
    return 0


def _read(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError:
        return ""
