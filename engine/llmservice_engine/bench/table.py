"""The figures as a table for people."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from llmservice_engine.bench.run import Summary

_HEADINGS = (
    "out\ntok/s",
    "decode\ntok/s",
    "TTFT\np50 ms",
    "\np99 ms",
    "ITL\np50 ms",
    "\np99 ms",
    "time\ns",
    "err",
)


def show(summaries: Sequence[Summary], console: Console) -> None:
    table = Table(title="llmservice-engine bench", title_justify="left")
    table.add_column("load")
    for heading in _HEADINGS:
        table.add_column(heading, justify="right")
    for summary in summaries:
        table.add_row(
            summary.scenario,
            f"{summary.output_tokens_per_s:.1f}",
            f"{summary.decode_tokens_per_s:.1f}",
            f"{summary.ttft_p50_ms:.0f}",
            f"{summary.ttft_p99_ms:.0f}",
            f"{summary.itl_p50_ms:.0f}",
            f"{summary.itl_p99_ms:.0f}",
            f"{summary.seconds:.1f}",
            str(summary.errors),
        )
    console.print(table)
    for summary in summaries:
        console.print(f"  {summary.scenario}: {summary.about}", highlight=False)
        if summary.first_error:
            console.print(
                f"  {summary.scenario}: first error: {summary.first_error}", style="red", markup=False
            )
