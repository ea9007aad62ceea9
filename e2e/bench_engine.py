"""``make bench``: the four loads against the engine on this machine, over HTTP, with the real model.

Prints the tables of ``llmservice-engine bench``. Another server can be measured the same way:
``llmservice-engine bench --base-url … --scenario c16``.
"""

from __future__ import annotations

import argparse
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx

from e2e import model

SCENARIOS = ("single", "c16", "c64", "prefix")
ENGINE = str(Path(sys.prefix) / "bin" / "llmservice-engine")


def main() -> int:
    parser = argparse.ArgumentParser(prog="e2e.bench_engine")
    parser.add_argument("scenarios", nargs="*", choices=[*SCENARIOS, []], default=[])
    parser.add_argument("--flags", default="", help="more flags of the engine, in one string")
    asked = parser.parse_args()
    chosen = asked.scenarios or SCENARIOS
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    server = [
        ENGINE,
        "serve",
        str(model.ensure()),
        "--host",
        "127.0.0.1",
        "--port",
        port,
        "--log-level",
        "warning",
    ]
    with subprocess.Popen(server) as process:
        try:
            url = f"http://127.0.0.1:{port}"
            _wait_ready(url, process)
            for scenario in chosen:
                bench = [ENGINE, "bench", "--base-url", url, "--scenario", scenario]
                subprocess.run(bench, check=True)
        finally:
            process.terminate()
    return 0


def _wait_ready(url: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        try:
            if httpx.get(f"{url}/ready", timeout=2).status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.2)
    raise SystemExit("the engine did not become ready within 120 s")


if __name__ == "__main__":
    raise SystemExit(main())
