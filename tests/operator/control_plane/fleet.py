"""Operator processes as the chart would run them: own identity, the chart's rights, one lease."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError

import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.operator.control_plane import kube
from tests.operator.control_plane.kube import Kube

NAMESPACE = "llmservice-system"
ACCOUNT = "llmservice-operator"
USER = f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}"
LEASE = "llmservice-operator"
PROGRAM = ("-m", "llmservice_operator")  # as Python's arguments
IMAGE = "registry.example/engine:1"


@dataclass
class Replica:
    identity: str
    process: subprocess.Popen[bytes]
    port: int
    log: Path

    def probe(self, which: str) -> int:
        """The HTTP status of a probe; 0 for no answer."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/{which}", timeout=5) as answer:
                return int(answer.status)
        except URLError as error:
            return int(getattr(error, "code", 0))
        except OSError:
            return 0

    def metrics(self) -> str:
        return self.read("metrics")

    def read(self, what: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/{what}", timeout=5) as answer:
            return str(answer.read().decode())

    def metric(self, name: str, **labels: str) -> float:
        """The sum over what has these labels; 0 where nothing has."""
        samples = [
            sample
            for family in text_string_to_metric_families(self.metrics())
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        ]
        return sum(sample.value for sample in samples)

    def stop(self) -> tuple[int, float]:
        """SIGTERM: exit code, and seconds until it had ended."""
        started = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=20), time.monotonic() - started


class Fleet:
    """Starts and ends the operators of one install, named as the chart names all that is its own."""

    def __init__(
        self, kubernetes: Kube, folder: Path, name: str = ACCOUNT, namespace: str = NAMESPACE
    ) -> None:
        self._kube = kubernetes
        self._name, self._namespace = name, namespace
        self._folder = folder
        self._kubeconfig = folder / "operator.kubeconfig"
        self._kubeconfig.write_text(self._config())
        self._count = 0
        self.replicas: list[Replica] = []

    def start(
        self,
        image: str = IMAGE,
        namespaces: tuple[str, ...] = (),
        *,
        ready: bool = True,
        program: tuple[str, ...] = PROGRAM,
        options: tuple[str, ...] = (),
    ) -> Replica:
        self._count += 1
        identity, port = f"operator-{self._count}", free_port()
        log = self._folder / f"{identity}.log"
        command = [
            *(sys.executable, *program, "run", f"--engine-image={image}"),
            *(f"--kubeconfig={self._kubeconfig}", f"--lease-namespace={self._namespace}"),
            *(f"--lease-name={self._name}", f"--identity={identity}", f"--health-port={port}", *options),
            *(f"--namespace={name}" for name in namespaces),
        ]
        with log.open("wb") as out:
            process = subprocess.Popen(command, stdout=out, stderr=out)
        replica = Replica(identity, process, port, log)
        self.replicas.append(replica)
        if ready:
            kube.eventually(lambda: replica.probe("readyz") == 200, 30, f"{identity} is ready, see {log}")
        return replica

    def holder(self) -> str:
        lease = self._kube.get("Lease", self._name, self._namespace) or {}
        return str((lease.get("spec") or {}).get("holderIdentity") or "")

    def leader(self, within: float = 20.0) -> Replica:
        def look() -> Replica | None:
            return next((one for one in self.replicas if one.identity == self.holder() and alive(one)), None)

        return kube.eventually(look, within, "one of the operators leads")

    def keep_two(self) -> None:
        """Start what is missing to two replicas with the usual image."""
        self.replicas = [one for one in self.replicas if alive(one)]
        while len(self.replicas) < 2:
            self.start()
        self.leader()

    def stop_all(self) -> None:
        for one in self.replicas:
            if alive(one):
                one.stop()
        self.replicas.clear()

    def kill_all(self) -> None:
        for one in self.replicas:
            one.process.kill()
            one.process.wait()

    def _config(self) -> str:
        token = self._kube.kubectl(
            "create", "token", self._name, "-n", self._namespace, "--duration=2h"
        ).stdout.strip()
        cluster = {"server": self._kube.server, "certificate-authority-data": self._kube.ca}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "operator",
            "contexts": [{"name": "operator", "context": {"cluster": "test", "user": "operator"}}],
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": "operator", "user": {"token": token}}],
        }
        return yaml.safe_dump(config)


def alive(replica: Replica) -> bool:
    return replica.process.poll() is None


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
