"""The real server in a process of its own, as a container runs it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx

NAMES = ("smollm2", "meta-llama/Meta-Llama-3-8B-Instruct")
START_SECONDS = 90
SERVE = (sys.executable, "-m", "llmservice_engine.cli", "serve")


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


class Server:
    """A running ``llmservice-engine serve``, its port, its log and its termination log."""

    def __init__(self, process: subprocess.Popen[bytes], port: int, folder: Path) -> None:
        self.process = process
        self.url = f"http://127.0.0.1:{port}"
        self._folder = folder

    @property
    def log(self) -> str:
        return (self._folder / "log").read_text()

    @property
    def termination_log(self) -> str:
        return (self._folder / "termination-log").read_text()

    def wait_until(self, path: str, status: int, seconds: float = START_SECONDS) -> httpx.Response:
        """The first answer of ``path`` with ``status``."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                response = httpx.get(self.url + path, timeout=5)
                if response.status_code == status:
                    return response
            except httpx.TransportError:
                pass
            time.sleep(0.05)
        raise AssertionError(f"no {status} from {path}; exit code {self.process.poll()}; log:\n{self.log}")

    def terminate(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def exit_code(self, seconds: float = 30) -> int:
        return self.process.wait(seconds)


@contextmanager
def launched(
    arguments: Sequence[str],
    folder: Path,
    *,
    command: Sequence[str] = SERVE,
    environment: dict[str, str] | None = None,
    port: int | None = None,
) -> Iterator[Server]:
    """Start a server; it may still be loading. It is killed at the end where it has not ended by itself."""
    port = port or free_port()
    (folder / "termination-log").touch()
    variables = (
        os.environ
        | {"LLMSERVICE_TERMINATION_LOG_PATH": str(folder / "termination-log")}
        | (environment or {})
    )
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [*command, *arguments, "--port", str(port)], stderr=log, stdout=log, env=variables
        )
    try:
        yield Server(process, port, folder)
    finally:
        process.kill()
        process.wait()
