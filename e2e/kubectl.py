"""kubectl and helm against one kubeconfig, as a person would type them."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import yaml

T = TypeVar("T")


class CommandFailed(Exception):
    """A command ended with an error; the message is what it printed."""


@dataclass(frozen=True, slots=True)
class Kubectl:
    kubeconfig: Path
    kubectl: str = "kubectl"
    helm: str = "helm"
    namespace: str = "default"

    def __call__(self, *arguments: str, stdin: str | None = None, timeout: float = 120) -> str:
        """Run kubectl; returns what it printed.

        Raises:
            CommandFailed: a non-zero exit, with its standard error.
        """
        return self._run([self.kubectl, "-n", self.namespace, *arguments], stdin, timeout)

    def run_helm(self, *arguments: str, timeout: float = 180) -> str:
        return self._run([self.helm, *arguments], None, timeout)

    def _run(self, argv: list[str], stdin: str | None, timeout: float) -> str:
        done = subprocess.run(
            argv,
            input=stdin,
            env=self.environment(),
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        if done.returncode:
            raise CommandFailed(f"{' '.join(argv[:6])}: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout

    def environment(self) -> dict[str, str]:
        return {**os.environ, "KUBECONFIG": str(self.kubeconfig)}

    def apply(self, *objects: dict[str, Any]) -> str:
        return self("apply", "-f", "-", stdin=yaml.safe_dump_all(objects, sort_keys=False))

    def get(self, kind: str, name: str) -> dict[str, Any]:
        read: dict[str, Any] = json.loads(self("get", kind, name, "-o", "json"))
        return read

    def items(self, kind: str, *arguments: str) -> list[dict[str, Any]]:
        read: list[dict[str, Any]] = json.loads(self("get", kind, "-o", "json", *arguments))["items"]
        return read

    def condition(self, name: str, kind: str) -> dict[str, Any]:
        """One condition of an LLMService; empty where it has none of that type."""
        conditions = self.get("llmsvc", name).get("status", {}).get("conditions", [])
        return next((c for c in conditions if c["type"] == kind), {})

    @contextmanager
    def port_forward(self, target: str, local: int, remote: str = "http") -> Iterator[str]:
        """Forward a local port (0: a free one) to ``target``; yields the base URL."""
        argv = [self.kubectl, "-n", self.namespace, "port-forward", target, f"{local or ''}:{remote}"]
        with subprocess.Popen(
            argv, env=self.environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as process:
            try:
                assert process.stdout is not None
                line = process.stdout.readline()
                if not line.startswith("Forwarding from 127.0.0.1:"):
                    raise CommandFailed(f"port-forward {target}: {line.strip()}")
                port = line.removeprefix("Forwarding from 127.0.0.1:").split(" ")[0]
                yield f"http://127.0.0.1:{port}"
            finally:
                process.terminate()


def until(what: Callable[[], T], wanted: Callable[[T], bool], seconds: float, every: float = 0.5) -> T:
    """Ask until the answer is as wanted; returns it.

    Raises:
        TimeoutError: with the last answer.
    """
    deadline = time.monotonic() + seconds
    while True:
        answer = what()
        if wanted(answer):
            return answer
        if time.monotonic() > deadline:
            raise TimeoutError(f"not so within {seconds:.0f} s; last seen: {answer!r}"[:2000])
        time.sleep(every)
