"""What the demo wants of the machine, asked before anything is fetched or built. Standard library only."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys

PORT = 8000  # forwarded by the demo
PYTHONS = ((3, 11), (3, 13))


def kind_of_cluster() -> str:
    """``CLUSTER``, or what this machine has: kind where Docker answers and kind is installed, else local.

    Raises:
        ValueError: ``CLUSTER`` is something else.
    """
    asked = os.environ.get("CLUSTER")
    if asked is None:
        return "kind" if shutil.which("kind") and _docker_answers() else "local"
    if asked not in ("local", "kind", "current"):
        raise ValueError(f"CLUSTER={asked}: it can be local, kind or current")
    return asked


def missing() -> str | None:
    """One line on what stands in the way of the demo, or None."""
    try:
        kind = kind_of_cluster()
    except ValueError as error:
        return str(error)
    if not PYTHONS[0] <= sys.version_info[:2] <= PYTHONS[1]:
        version = ".".join(map(str, sys.version_info[:2]))
        return f"Python {version} is not supported: 3.11 to 3.13 (PYTHON=python3.12 make demo names another)"
    if kind == "local" and (sys.platform != "linux" or os.geteuid() != 0):
        return "the demo makes a real node, with containers and networks: run it as root on Linux"
    if kind == "local" and not shutil.which("go"):
        return "Go is missing, which builds Kubernetes: install Go 1.26 or newer, and have `go` on PATH"
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", PORT))
        except OSError:
            return (
                f"port {PORT}, which the demo forwards, is taken (ss -ltnp 'sport = :{PORT}' shows by whom)"
            )
    return None


def _docker_answers() -> bool:
    if not shutil.which("docker"):
        return False
    return subprocess.run(["docker", "info"], capture_output=True, check=False).returncode == 0


if __name__ == "__main__":
    problem = missing()
    if problem:
        print(f"demo: {problem}", file=sys.stderr)
        raise SystemExit(2)
