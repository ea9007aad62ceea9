"""What one run found, the marks, and the table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


@dataclass(slots=True)
class Measured:
    """One number of services. Times in seconds."""

    count: int
    nodes: int = 0
    load: str = ""  # of the machine as the run began
    ready: float = 0.0
    floor: float = 0.0
    writes: Counter[str] = field(default_factory=Counter)  # until all were Ready, by kind
    rest_writes: Counter[str] = field(default_factory=Counter)
    rest_reads: Counter[str] = field(default_factory=Counter)
    restart_writes: Counter[str] = field(default_factory=Counter)
    ready_cpu: float = 0.0
    ready_mib: float = 0.0
    peak_mib: float = 0.0
    restart_mib: float = 0.0  # of a process that finds all of it there
    edits: list[float] = field(default_factory=list)
    restart: float = 0.0
    killed: float = 0.0

    @property
    def writes_each(self) -> float:
        return self.writes.total() / self.count

    def edit(self, share: float) -> float:
        """The latency that this share of the edits did not exceed."""
        ordered = sorted(self.edits)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


class Row(NamedTuple):
    """One line of the table; ``mark`` is what must not be exceeded, by number of services (0: any)."""

    what: str
    value: float
    shown: str
    mark: dict[int, float]

    def cell(self, count: int) -> str:
        limit = self.mark.get(count, self.mark.get(0))
        if limit is None:
            return self.shown
        return f"{self.shown} {'✓' if self.value <= limit else '✗'} ≤ {limit:g}"


def rows(found: Measured) -> list[Row]:
    kinds = ", ".join(f"{kind} {n / found.count:.2g}" for kind, n in sorted(found.writes.items()))
    reads, rest = found.rest_reads.total(), found.rest_writes.total()
    median, p99 = found.edit(0.5), found.edit(0.99)
    again = found.restart_writes.total()
    return [
        Row("writes a service to Ready", found.writes_each, f"{found.writes_each:.2f} ({kinds})", {0: 5.0}),
        Row("writes in 60 s at rest", rest, _counted(found.rest_writes), {0: 0}),
        Row("writes at a restart", again, _counted(found.restart_writes), {0: 0}),
        Row("reads in 60 s at rest", reads, _counted(found.rest_reads), {0: 20}),
        Row("all Ready after (s)", found.ready, f"{found.ready:.1f}", {100: 9, 1000: 90}),
        Row("floor: all Deployments available (s)", found.floor, f"{found.floor:.1f}", {}),
        Row("CPU until then (s)", found.ready_cpu, f"{found.ready_cpu:.1f}", {1000: 40}),
        Row("peak memory until then (MiB)", found.ready_mib, f"{found.ready_mib:.0f}", {1000: 250}),
        Row("peak memory after the edits (MiB)", found.peak_mib, f"{found.peak_mib:.0f}", {1000: 250}),
        Row("peak memory after a restart (MiB)", found.restart_mib, f"{found.restart_mib:.0f}", {1000: 250}),
        Row("edit → template, median (s)", median, f"{median:.3f} of {len(found.edits)}", {100: 0.1}),
        Row("edit → template, p99 (s)", p99, f"{p99:.3f}", {1000: 1.5}),
        Row("restart → edit acted on (s)", found.restart, f"{found.restart:.1f}", {0: 3}),
        Row("kill -9 → edit acted on (s)", found.killed, f"{found.killed:.1f}", {0: 15}),
    ]


def table(runs: Sequence[Measured]) -> str:
    """Markdown: a column for each run."""
    columns = [rows(found) for found in runs]
    lines = [
        _line("", *(f"{found.count} services, {found.nodes} nodes" for found in runs)),
        _line(*["---"] * (len(runs) + 1)),
        _line("load as it began (1, 5, 15 min)", *(found.load for found in runs)),
    ]
    for alike in zip(*columns, strict=True):
        cells = (row.cell(found.count) for row, found in zip(alike, runs, strict=True))
        lines.append(_line(alike[0].what, *cells))
    return "\n".join(lines)


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _counted(tally: Counter[str]) -> str:
    if not tally:
        return "0"
    return f"{tally.total()} ({', '.join(f'{what} {n}' for what, n in sorted(tally.items()))})"
