"""Bring clusters up and down. For pytest: ``from e2e.cluster import launcher``.

cluster = launcher.up("test-1", "control-plane")
...
launcher.down("test-1")
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from e2e.cluster import build, cache, namespace, packages, prepare, processes, state
from e2e.cluster.api import Api
from e2e.cluster.errors import ClusterError, ComponentDied, MissingTool
from e2e.cluster.state import Layout, Status, Tier
from e2e.images import busybox, pause

ROOT = Path(__file__).resolve().parent.parent.parent
MODULES: dict[Tier, tuple[str, ...]] = {
    "control-plane": ("kubernetes", "etcd"),
    "node": ("kubernetes", "etcd", "pause", "coredns", "local-path-provisioner"),
}
UP_WITHIN = 240.0  # seconds; the supervisor has shorter limits of its own
ANSWERS_WITHIN = 10.0  # seconds; an API server that was killed is back by then

Say = Callable[[str], None]


def silent(_: str) -> None:
    """For those who want no lines."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster that is up."""

    name: str
    tier: Tier
    state: Path
    kubeconfig: Path
    audit_log: Path  # one JSON event a line, at the end of each request
    kubectl: Path
    helm: Path
    pid: int  # ending it ends the cluster
    node: str | None = None
    node_ip: str | None = None

    def enter(self, *argv: str) -> list[str]:
        """``argv`` to be run in the node's network (ClusterIPs, pods), with this machine's files."""
        if self.node is None:
            raise ClusterError(f"cluster {self.name} has no node to enter")
        return [*namespace.enter(self.pid), *argv]

    def pid_of(self, component: str) -> int:
        """This machine's process id of a component; a killed one is started again within 2 s."""
        return processes.pid_of(self.state, component)


def up(name: str, tier: Tier, say: Say = silent) -> Cluster:
    """Bring a cluster up, or find it up. What it leaves of a failure, or of Ctrl-C, is nothing.

    Raises:
        ClusterError: what is missing, or which component died, with its last log lines.
    """
    at = state.layout(name)
    with cache.locked(at.lock, lambda: say(f"{name}: another command has this cluster, waiting")):
        running = _healthy(at)
        if running:
            if running.tier != tier:
                raise ClusterError(
                    f"{name} is up as {running.tier}: python -m e2e.cluster down --name {name}"
                )
            say(f"{name} is up already")
            return running
        try:
            if tier == "node":
                _check_root()
                packages.ensure(packages.NODE)
            binaries = build.ensure((*MODULES[tier], "helm"))
            if at.folder.exists():
                say(f"{name}: cleaning what an earlier one left")
                _remove(at, silent)
            return _start(at, tier, binaries)
        except BaseException:
            _remove(at, silent)
            at.lock.unlink(missing_ok=True)
            raise


def down(name: str, say: Say = silent) -> None:
    """Remove every trace; nothing happens where there is none."""
    at = state.layout(name)
    with cache.locked(at.lock, lambda: say(f"{name}: another command has this cluster, waiting")):
        _remove(at, say)
        at.lock.unlink(missing_ok=True)


def get(name: str) -> Cluster:
    """A cluster that is up.

    Raises:
        ClusterError: it is not.
    """
    found = _healthy(state.layout(name))
    if not found:
        raise ClusterError(f"{name} is not up: python -m e2e.cluster up --name {name}")
    return found


def import_image(cluster: Cluster, archive: Path) -> None:
    """An OCI or Docker archive, under the names it holds, for the pods of this cluster."""
    at = state.layout(cluster.name)
    if cluster.node is None:
        raise ClusterError(f"cluster {cluster.name} has no node to hold images")
    if not archive.is_file():
        raise ClusterError(f"no such archive: {archive}")
    command = ["ctr", f"--address={at.containerd_socket}", "--namespace=k8s.io", "images", "import"]
    done = subprocess.run([*command, str(archive)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise ClusterError(f"importing {archive.name} failed: {done.stderr.strip()[-300:]}")


def set_fake_gpus(cluster: Cluster, count: int) -> None:
    """Make the node have ``count`` ``nvidia.com/gpu`` that no driver stands behind."""
    at = state.layout(cluster.name)
    status = state.read_status(at)
    if status is None or cluster.node is None:
        raise ClusterError(f"cluster {cluster.name} has no node to hold devices")
    Api(status.api, at.pki).set_fake_gpus(cluster.node, count)


def progress(name: str) -> dict[str, Any]:
    """What the supervisor says: phase, restarts."""
    try:
        read: dict[str, Any] = json.loads(state.layout(name).progress.read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return {}
    return read


def _start(at: Layout, tier: Tier, binaries: dict[str, Path]) -> Cluster:
    if tier == "node":
        archives = (pause.ensure().archive, busybox.ensure().archive)
        prepared = prepare.whole_node(at, binaries, archives)
    else:
        prepared = prepare.control_plane(at, binaries)
    process = _supervise(at, tier)
    if prepared.link:
        namespace.connect(prepared.link, process.pid)
    _wait(at, process)
    api = Api(prepared.url, at.pki)
    api.wait_for_service_account(30)
    if tier == "node":
        api.wait_for_node(at.name, 30)
    status = Status(
        name=at.name,
        tier=tier,
        api=prepared.url,
        kubeconfig=str(at.kubeconfig),
        audit_log=str(at.audit_log),
        pid=process.pid,
        binaries={module: str(folder) for module, folder in binaries.items()},
        node=at.name if tier == "node" else None,
        node_ip=prepared.link.node_address if prepared.link else None,
        link=prepared.link.device if prepared.link else None,
        link_subnet=prepared.link.subnet if prepared.link else None,
    )
    status.write(at.status)
    return _cluster(at, status)


def _supervise(at: Layout, tier: Tier) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "e2e.cluster.supervisor", str(at.folder)]
    with (at.logs / "supervisor.log").open("wb") as log:
        return subprocess.Popen(
            [*namespace.UNSHARE, *command] if tier == "node" else command,
            cwd=ROOT,
            env={**os.environ, state.MARK: str(at.folder)},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def _wait(at: Layout, process: subprocess.Popen[bytes]) -> None:
    """Until the supervisor says ready.

    Raises:
        ComponentDied: it says failed, or ended without a word.
    """
    deadline = time.monotonic() + UP_WITHIN
    while True:
        said = progress(at.name)
        if said.get("phase") == "ready":
            return
        if said.get("phase") == "failed":
            component = str(said["failed"])
            raise ComponentDied(component, str(said["reason"]), last_lines(at, component))
        if process.poll() is not None:
            raise ComponentDied("supervisor", "ended", last_lines(at, "supervisor"))
        if time.monotonic() > deadline:
            raise ClusterError(f"not up after {UP_WITHIN:.0f} s, still waiting for {said.get('waiting_for')}")
        time.sleep(0.05)


def last_lines(at: Layout, component: str, count: int = 20) -> list[str]:
    try:
        lines = (at.logs / f"{component}.log").read_text(errors="replace").splitlines()
    except FileNotFoundError:
        return []
    return [line[:400] for line in lines[-count:]]


def _healthy(at: Layout) -> Cluster | None:
    status = state.read_status(at)
    if status is None or status.pid not in processes.find(at.folder):
        return None
    deadline = time.monotonic() + ANSWERS_WITHIN
    while Api(status.api, at.pki).get("/version") is None:
        if time.monotonic() > deadline:
            return None
        time.sleep(0.2)
    return _cluster(at, status)


def _cluster(at: Layout, status: Status) -> Cluster:
    return Cluster(
        name=at.name,
        tier=status.tier,
        state=at.folder,
        kubeconfig=at.kubeconfig,
        audit_log=at.audit_log,
        kubectl=Path(status.binaries["kubernetes"]) / "kubectl",
        helm=Path(status.binaries["helm"]) / "helm",
        pid=status.pid,
        node=status.node,
        node_ip=status.node_ip,
    )


def _remove(at: Layout, say: Say) -> None:
    found = processes.find(at.folder)
    if not found and not at.folder.exists():
        say(f"{at.name}: nothing to remove")
        return
    processes.end_all(at.folder)
    link = state.read_link(at)
    if link:
        namespace.disconnect(link.device)
        namespace.remove_cgroups(at.cgroup)
    if at.folder.exists():
        shutil.rmtree(at.folder)
    if link:
        with state.links_locked():
            if not state.links():
                namespace.remove_empty_folders()
    say(f"{at.name}: removed")


def _check_root() -> None:
    if sys.platform != "linux" or os.geteuid() != 0:
        raise MissingTool(
            "a node needs root on Linux (namespaces, mounts): run as root, or use --tier control-plane"
        )
