"""The operator as a process of its own, with the chart's rights, and what the kernel says of it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import yaml

from e2e.cluster.errors import ClusterError
from e2e.cluster.launcher import Cluster
from e2e.scale import kwok
from e2e.scale.api import Api

NAMESPACE = "llmservice-system"
ACCOUNT = "llmservice-operator"
USER = f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}"
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/llmservice-operator"
READY_WITHIN = 60.0  # seconds
_TICKS = os.sysconf("SC_CLK_TCK")


class Replica:
    def __init__(self, identity: str, process: subprocess.Popen[bytes], port: int) -> None:
        self.identity = identity
        self.process = process
        self._port = port

    def metric(self, name: str) -> float:
        """The sum over a metric's labels; 0 while nobody answers."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/metrics", timeout=10) as answer:
                text = answer.read().decode()
        except OSError:
            return 0.0
        rows = (line.rpartition(" ") for line in text.splitlines())
        return sum(float(value) for label, _, value in rows if label.partition("{")[0] == name)

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    def peak_mib(self) -> float:
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
        raise ClusterError(f"{self.identity} has ended")

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=30)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


class Operators:
    """Starts them."""

    def __init__(self, cluster: Cluster, api: Api, program: tuple[str, ...]) -> None:
        self._cluster = cluster
        self._api = api
        self._program = program
        self._count = 0
        self._config = cluster.state / "operator.kubeconfig"
        self._config.touch(mode=0o600)
        self._config.write_text(self._kubeconfig())

    def start(self, *, leading: bool = True) -> Replica:
        """A new replica; waits until it leads, unless told otherwise."""
        self._count += 1
        identity, port = f"operator-{self._count}", _free_port()
        process = kwok.spawn(
            self._cluster,
            identity,
            *(sys.executable, *self._program, "run", "--engine-image=registry.example/engine:1"),
            *(f"--kubeconfig={self._config}", f"--lease-namespace={NAMESPACE}", f"--identity={identity}"),
            *(f"--health-port={port}", "--lease-name=llmservice-operator"),
        )
        replica = Replica(identity, process, port)
        if leading:
            self.wait_leads(replica)
        return replica

    def wait_leads(self, replica: Replica) -> None:
        deadline = time.monotonic() + READY_WITHIN
        while self.holder() != replica.identity:
            if replica.process.poll() is not None or time.monotonic() > deadline:
                raise ClusterError(f"{replica.identity} does not lead")
            time.sleep(0.05)

    def wait_follows(self, replica: Replica) -> None:
        """Until it has listed everything."""
        deadline = time.monotonic() + READY_WITHIN
        while not replica.metric("llmservice_operator_objects"):
            if time.monotonic() > deadline:
                raise ClusterError(f"{replica.identity} does not follow")
            time.sleep(0.2)

    def holder(self) -> str:
        lease = self._api.get(LEASE) or {}
        return str((lease.get("spec") or {}).get("holderIdentity") or "")

    def _kubeconfig(self) -> str:
        kubectl = [str(self._cluster.kubectl), f"--kubeconfig={self._cluster.kubeconfig}"]
        asked = [*kubectl, "create", "token", ACCOUNT, f"--namespace={NAMESPACE}", "--duration=4h"]
        token = subprocess.run(asked, text=True, capture_output=True, check=True).stdout.strip()
        server = {"server": self._api.server, "certificate-authority-data": self._api.ca}
        return yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "operator",
                "contexts": [{"name": "operator", "context": {"cluster": "bench", "user": "operator"}}],
                "clusters": [{"name": "bench", "cluster": server}],
                "users": [{"name": "operator", "user": {"token": token}}],
            }
        )


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
