"""Nodes that are only said to be there, with devices that nobody has."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from e2e.cluster import build, state
from e2e.cluster.errors import ClusterError
from e2e.cluster.launcher import Cluster
from e2e.scale.api import Api, Body

DEVICES = 32  # of a node
STAGES = Path(__file__).with_name("stages.yaml")
READY_WITHIN = 60.0  # seconds


def spawn(cluster: Cluster, name: str, *argv: str) -> subprocess.Popen[bytes]:
    """A process that goes with the cluster, whatever becomes of the benchmark; its log is among the cluster's."""
    marks = {state.MARK: str(cluster.state), state.COMPONENT_MARK: name}
    with (cluster.state / "logs" / f"{name}.log").open("wb") as log:
        return subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, **marks}
        )


def start(cluster: Cluster, api: Api, devices: int, address: str) -> int:
    """Run kwok and wait until nodes with so many devices in all are Ready; how many nodes."""
    binary = build.ensure(["kwok"])["kwok"] / "kwok"
    stages = cluster.state / "config" / "stages.yaml"
    stages.write_text(STAGES.read_text().replace("ADDRESS", address))
    spawn(
        cluster,
        "kwok",
        *(str(binary), f"--kubeconfig={cluster.kubeconfig}", f"--config={stages}"),
        "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
        "--node-lease-duration-seconds=40",
    )
    count = -(-devices // DEVICES)
    api.create_all([("/api/v1/nodes", node(f"fake-{number}")) for number in range(count)])
    deadline = time.monotonic() + READY_WITHIN
    while sum(map(_is_ready, api.call("GET", "/api/v1/nodes")["items"])) < count:
        if time.monotonic() > deadline:
            log = (cluster.state / "logs" / "kwok.log").read_text()
            raise ClusterError(f"kwok's nodes are not ready: {log[-500:]}")
        time.sleep(0.2)
    return count


def engines(cluster: Cluster, port: int, *, silent: bool) -> None:
    """Answer for every pod.

    Raises:
        ClusterError: something else listens there.
    """
    process = spawn(
        cluster,
        "engines",
        *(sys.executable, "-m", "e2e.scale.engines", str(port), *(["--silent"] if silent else [])),
    )
    log = cluster.state / "logs" / "engines.log"
    deadline = time.monotonic() + 15
    while "ready" not in log.read_text():
        if process.poll() is not None or time.monotonic() > deadline:
            raise ClusterError(f"port {port} must be free, pods answer there: {log.read_text()[-200:]}")
        time.sleep(0.05)


def node(name: str) -> Body:
    has = {"cpu": "1k", "memory": "64Ti", "pods": "256", "nvidia.com/gpu": str(DEVICES)}
    labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels, "annotations": {"kwok.x-k8s.io/node": "fake"}},
        "status": {"capacity": has, "allocatable": has},
    }


def _is_ready(node: Body) -> bool:
    conditions = node.get("status", {}).get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
