"""``make bench-operator``: how the operator carries 100, 300 and 1,000 services, beside bare Deployments.

A real API server and its controllers, kwok's nodes with devices that nobody has, the operator as a process of its
own. Everything runs on this machine and shares its cores, so say its load beside the figures.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from pathlib import Path

from e2e.cluster.errors import ClusterError
from e2e.scale import bed, measured, phases
from e2e.scale.measured import Measured

COUNTS = (100, 300, 1000)
OPERATOR = ("-m", "llmservice_operator")  # as Python's arguments


def main() -> int:
    parser = argparse.ArgumentParser(prog="e2e.scale", description=__doc__.split("\n")[0])
    parser.add_argument(
        "counts", nargs="*", type=int, metavar="N", help="how many services; default: 100 300 1000"
    )
    parser.add_argument(
        "--silent-engines", action="store_true", help="engines take a request and never answer"
    )
    parser.add_argument("--program", type=Path, help="a Python file to run in the operator's place")
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ended politely is like Ctrl-C: clean up
    program = (str(asked.program),) if asked.program else OPERATOR
    runs: list[Measured] = []
    for count in asked.counts or COUNTS:
        found = Measured(count, load=" ".join(f"{load:.2f}" for load in os.getloadavg()))
        say = _clock()
        with bed.made(count, silent=asked.silent_engines) as place:
            found.nodes = place.nodes
            say(f"{count} services: {place.nodes} nodes are there, load {found.load}")
            phases.run(place, program, found, say)
        runs.append(found)
        print("\n" + measured.table(runs), flush=True)
    return 0


def _clock() -> phases.Say:
    begun = time.monotonic()

    def say(what: str) -> None:
        print(f"{time.monotonic() - begun:6.0f} s  {what}", flush=True)

    return say


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ClusterError as error:
        print(f"bench-operator: {error}", file=sys.stderr)
        sys.exit(2)
