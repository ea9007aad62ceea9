"""The tests in tiers, a line each; ``python -m e2e.tiers`` is what ``make test`` runs.

Cheap tiers run first, and a red tier ends the run: the later ones would only repeat its fault more slowly.
The last lines are pytest's own, over the last tier; the table above them has every tier's count.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

ROOT = Path(__file__).parent.parent


@dataclass(frozen=True, slots=True)
class Tier:
    name: str
    what: str
    paths: tuple[str, ...]  # of pytest; none: the static checks
    needs: tuple[str, ...] = ()  # modules to run beforehand: python -m NAME


TIERS = (
    Tier("static", "ruff, mypy --strict, import-linter, generated files", ()),
    Tier(
        "unit",
        "pure parts: no cluster, no model",
        (
            "tests/planner",
            "tests/cluster",
            "tests/docs",
            "tests/operator/api",
            "tests/operator/desired",
            "tests/operator/status",
            "tests/operator/watch",
            "tests/operator/live",
            "tests/operator/fetch",
            "tests/operator/gitops",
            "tests/operator/cli",
            "tests/operator/metrics_api",
            "tests/engine/core",
        ),
    ),
    Tier(
        "engine",
        "the real model through the real server",
        ("tests/engine/models", "tests/engine/device", "tests/engine/codec", "tests/engine/api"),
        ("e2e.model",),
    ),
    Tier(
        "control-plane",
        "a real API server, controllers and the chart",
        ("tests/operator/control_plane", "tests/operator/chart"),
        ("e2e.cluster build",),
    ),
    Tier(
        "e2e",
        "a real node: apply, Ready, streamed answer, edit, delete",
        ("e2e/tests",),
        ("e2e.cluster build", "e2e.model", "e2e.images operator"),
    ),
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="e2e.tiers")
    parser.add_argument("--only", choices=[tier.name for tier in TIERS])
    parser.add_argument("--full", action="store_true", help="whole matrices, not one representative")
    chosen = parser.parse_args()
    console = Console()
    rows: list[str] = []
    begun = time.monotonic()
    for tier in TIERS:
        if chosen.only not in (None, tier.name):
            continue
        console.rule(f"{tier.name}: {tier.what}")
        started = time.monotonic()
        passed, said = _run(tier, full=chosen.full)
        rows.append(f"{tier.name:<14} {said:<40} {time.monotonic() - started:6.0f} s")
        console.print(rows[-1])
        if not passed:
            return 1
    return _summary(rows, time.monotonic() - begun)


def _run(tier: Tier, *, full: bool) -> tuple[bool, str]:
    if not tier.paths:
        done = subprocess.run(["make", "--no-print-directory", "check"], cwd=ROOT, check=False)
        return done.returncode == 0, "clean" if done.returncode == 0 else "NOT CLEAN"
    for module in tier.needs:
        done = subprocess.run([sys.executable, "-m", *module.split()], cwd=ROOT, check=False)
        if done.returncode:
            return False, f"`python -m {module}` failed"
    pytest = [sys.executable, "-m", "pytest", "-q", *(() if full else ("-m", "not full")), *tier.paths]
    with subprocess.Popen(pytest, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        last = ""
        assert process.stdout is not None
        for line in process.stdout:
            sys.stdout.write(line)
            sys.stdout.flush()
            last = line.strip() or last
    counted = re.sub(r"=+|\s+in .*", "", last).strip()
    return process.returncode == 0, counted


def _summary(rows: list[str], seconds: float) -> int:
    """All tiers, and a closing line in pytest's own form over all of them."""
    total = sum(int(n) for row in rows for n in re.findall(r"(\d+) passed", row))
    print("\n".join(["", *rows, "", f"===== {total} passed in {seconds:.2f}s ====="]))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
