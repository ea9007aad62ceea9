"""The private namespace that holds a node: made by ``unshare``, entered by ``nsenter``, ended by one kill."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from pathlib import Path

from e2e.cluster.addresses import Link
from e2e.cluster.errors import ClusterError
from e2e.cluster.plan import Node

UNSHARE = ("unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
PRIVATE_FOLDERS = ("/run/netns", "/run/containerd", "/var/lib/cni", "/var/lib/kubelet", "/var/log")
CGROUPS = Path("/sys/fs/cgroup")
INNER_DEVICE = "eth0"


def prepare(node: Node) -> None:
    """Run by process 1 inside: mounts, links, addresses. Nothing of it is seen outside."""
    _run("mount", "--make-rprivate", "/")
    for folder in PRIVATE_FOLDERS:
        Path(folder).mkdir(parents=True, exist_ok=True)
        _run("mount", "-t", "tmpfs", "tmpfs", folder)
    Path(node.kubelet).mkdir(parents=True, exist_ok=True)
    _run("mount", "--bind", node.kubelet, "/var/lib/kubelet")  # volumes on disk, not in memory
    _run("mount", "--make-rshared", "/var/lib/kubelet")
    _wait_for(Path("/proc/sys/net/ipv4/conf") / INNER_DEVICE)
    for command in (
        "link set lo up",
        f"address add {node.address} dev {INNER_DEVICE}",
        f"link set {INNER_DEVICE} up",
        f"route add default via {node.gateway}",
        "link add cni0 type bridge",
        f"address add {node.bridge_address} dev cni0",
        "link set cni0 up",
    ):
        _run("ip", *command.split())
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
    for group in cgroup_folders(node.cgroup):
        group.mkdir(exist_ok=True)
        _delegate(group)


def connect(link: Link, outer_pid: int) -> None:
    """Run outside: a veth pair from this machine to the namespace of ``outer_pid``."""
    own, inner = (Path(f"/proc/{pid}/ns/net") for pid in ("self", outer_pid))
    deadline = time.monotonic() + 10
    while inner.readlink() == own.readlink():
        if time.monotonic() > deadline:
            raise ClusterError("unshare made no network namespace within 10 s")
        time.sleep(0.01)
    for command in (
        f"link add {link.device} type veth peer name {INNER_DEVICE} netns {outer_pid}",
        f"address add {link.host_address}/30 dev {link.device}",
        f"link set {link.device} up",
    ):
        _run("ip", *command.split())


def disconnect(device: str) -> None:
    """The pair usually went with the namespace; the kernel may take a moment, so say it again."""
    subprocess.run(["ip", "link", "delete", device], capture_output=True, check=False)


def enter(outer_pid: int) -> tuple[str, ...]:
    """The prefix of a command that is to see the node's network, and this machine's files."""
    return ("nsenter", "--target", str(outer_pid), "--net", "--")


def remove_empty_folders() -> None:
    """The mount points that a node needed, once there is no node; what others use is not empty."""
    for folder in PRIVATE_FOLDERS:
        with contextlib.suppress(OSError):
            Path(folder).rmdir()


def cgroup_folders(name: str) -> list[Path]:
    """The folder ``name`` of each hierarchy (version 1), or of the one there is (version 2)."""
    if (CGROUPS / "cgroup.controllers").exists():
        return [CGROUPS / name]
    hierarchies = [path for path in sorted(CGROUPS.iterdir()) if path.is_dir() and not path.is_symlink()]
    return [path / name for path in hierarchies]


def remove_cgroups(name: str) -> None:
    """Bottom up; the processes in them have ended."""
    deadline = time.monotonic() + 10
    for top in cgroup_folders(name):
        while top.exists():
            for folder, _, _ in os.walk(top, topdown=False):
                with contextlib.suppress(OSError):  # a process of it is still ending
                    Path(folder).rmdir()
            if top.exists():
                if time.monotonic() > deadline:
                    raise ClusterError(f"{top} still holds processes after 10 s")
                time.sleep(0.05)


def _delegate(folder: Path) -> None:
    """Version 2: let the kubelet set limits below ``folder``."""
    for level in (folder.parent, folder):
        available = level / "cgroup.controllers"
        if available.exists():
            wanted = " ".join(f"+{name}" for name in available.read_text().split())
            (level / "cgroup.subtree_control").write_text(wanted)


def _wait_for(path: Path) -> None:
    deadline = time.monotonic() + 10
    while not path.exists():
        if time.monotonic() > deadline:
            raise OSError(f"{path} did not appear within 10 s")
        time.sleep(0.01)


def _run(*argv: str) -> None:
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)
