"""What a process may use, read from real files of cgroup versions 1 and 2."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from llmservice_engine.device import memory

GIB = 2**30


@pytest.fixture
def machine(tmp_path: Path) -> tuple[Path, Path]:
    """/proc and /sys/fs/cgroup of a machine of 16 GiB without limits."""
    proc, cgroups = tmp_path / "proc", tmp_path / "cgroup"
    write(proc / "meminfo", f"MemTotal:       {16 * GIB // 1024} kB\nMemFree:  1 kB\n")
    write(proc / "self" / "cgroup", "0::/\n")
    cgroups.mkdir()
    return proc, cgroups


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def test_without_limits_the_machine_counts(machine: tuple[Path, Path]) -> None:
    assert memory.limit(*machine) == 16 * GIB
    assert memory.threads(*machine) == len(os.sched_getaffinity(0))


def test_version_2_limits_count(machine: tuple[Path, Path]) -> None:
    write(machine[1] / "memory.max", f"{3 * GIB}\n")
    write(machine[1] / "cpu.max", "100000 100000\n")
    assert memory.limit(*machine) == 3 * GIB
    assert memory.threads(*machine) == 1


def test_the_smallest_limit_above_the_process_counts(machine: tuple[Path, Path]) -> None:
    proc, cgroups = machine
    write(proc / "self" / "cgroup", "0::/pods/engine\n")
    write(cgroups / "pods" / "memory.max", f"{2 * GIB}\n")
    write(cgroups / "pods" / "engine" / "memory.max", "max\n")
    assert memory.limit(proc, cgroups) == 2 * GIB


def test_version_1_limits_count(machine: tuple[Path, Path]) -> None:
    proc, cgroups = machine
    write(proc / "self" / "cgroup", "5:memory:/box\n4:cpu,cpuacct:/box\n")
    write(cgroups / "memory" / "box" / "memory.limit_in_bytes", f"{GIB}\n")
    write(cgroups / "cpu,cpuacct" / "box" / "cpu.cfs_quota_us", "50000\n")
    write(cgroups / "cpu,cpuacct" / "box" / "cpu.cfs_period_us", "100000\n")
    assert memory.limit(proc, cgroups) == GIB
    assert memory.threads(proc, cgroups) == 1


def test_version_1_without_limits_counts_as_none(machine: tuple[Path, Path]) -> None:
    proc, cgroups = machine
    write(proc / "self" / "cgroup", "5:memory:/\n4:cpu,cpuacct:/\n")
    write(cgroups / "memory" / "memory.limit_in_bytes", "9223372036854771712\n")
    write(cgroups / "cpu,cpuacct" / "cpu.cfs_quota_us", "-1\n")
    write(cgroups / "cpu,cpuacct" / "cpu.cfs_period_us", "100000\n")
    assert memory.limit(proc, cgroups) == 16 * GIB
    assert memory.threads(proc, cgroups) == len(os.sched_getaffinity(0))


def test_a_fraction_of_a_processor_is_one_thread(machine: tuple[Path, Path]) -> None:
    write(machine[1] / "cpu.max", "20000 100000\n")
    assert memory.threads(*machine) == 1


def test_this_process_and_this_machine_have_figures() -> None:
    assert 0 < memory.process() < memory.limit()
    assert memory.threads() >= 1
    assert not memory.has_instructions("no_such_instruction")
