"""A cluster's folder: what is in it, and what is known about the cluster."""

from __future__ import annotations

import json
import re
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from e2e.cluster import cache
from e2e.cluster.addresses import Link
from e2e.cluster.errors import ClusterError

Tier = Literal["control-plane", "node"]
NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,28}[a-z0-9])?")
LONGEST_SOCKET = 107  # bytes in a Unix socket's address
MARK = "LLMSERVICE_CLUSTER"  # environment variable of every process of a cluster: its state folder
COMPONENT_MARK = "LLMSERVICE_COMPONENT"


@dataclass(frozen=True, slots=True)
class Layout:
    """Where one cluster keeps what."""

    name: str

    @property
    def folder(self) -> Path:
        return cache.root() / "clusters" / self.name

    @property
    def lock(self) -> Path:
        return cache.root() / "clusters" / f".{self.name}.lock"

    @property
    def pki(self) -> Path:
        return self.folder / "pki"

    @property
    def config(self) -> Path:
        return self.folder / "config"

    @property
    def logs(self) -> Path:
        return self.folder / "logs"

    @property
    def kubeconfig(self) -> Path:
        return self.folder / "kubeconfig"

    @property
    def audit_log(self) -> Path:
        return self.folder / "audit.log"

    @property
    def containerd_socket(self) -> Path:
        return self.folder / "containerd.sock"

    @property
    def shared(self) -> Path:
        """The folder that holds every claim of the storage class ``shared``."""
        return self.folder / "shared"

    @property
    def plan(self) -> Path:
        """What the supervisor is to run."""
        return self.folder / "plan.json"

    @property
    def progress(self) -> Path:
        """What the supervisor says of it."""
        return self.folder / "progress.json"

    @property
    def status(self) -> Path:
        """Written once all is ready."""
        return self.folder / "status.json"

    @property
    def cgroup(self) -> str:
        return f"llmservice-{self.name}"


@dataclass(frozen=True, slots=True)
class Status:
    """``status.json``: a cluster that came up."""

    name: str
    tier: Tier
    api: str  # URL
    kubeconfig: str
    audit_log: str
    pid: int  # of the outermost process: ending it ends everything
    binaries: dict[str, str]  # module → folder
    node: str | None = None  # the Node's name
    node_ip: str | None = None
    link: str | None = None  # the host's end of the veth pair
    link_subnet: str | None = None

    def write(self, path: Path) -> None:
        write_json(path, asdict(self))


def layout(name: str) -> Layout:
    """Raises ClusterError for a name that cannot be one."""
    if not NAME.fullmatch(name):
        raise ClusterError(f"cluster name {name!r}: lower-case letters, digits and dashes, at most 30")
    made = Layout(name)
    if len(str(made.containerd_socket)) + len(".ttrpc") > LONGEST_SOCKET:
        raise ClusterError(
            f"{made.folder} is too long a path for a socket: set LLMSERVICE_CACHE to a shorter one"
        )
    return made


def read_status(at: Layout) -> Status | None:
    """None where the cluster never became ready, or is gone."""
    try:
        return Status(**json.loads(at.status.read_text()))
    except (FileNotFoundError, NotADirectoryError, json.JSONDecodeError, TypeError):
        return None


def names() -> list[str]:
    folder = cache.root() / "clusters"
    return sorted(path.name for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []


def write_json(path: Path, value: Any) -> None:
    """In one step, so that a reader never sees half of it."""
    unfinished = path.with_suffix(".tmp")
    unfinished.write_text(json.dumps(value, indent=2) + "\n")
    unfinished.replace(path)


def read_link(at: Layout) -> Link | None:
    """The link to the cluster's node, known from the moment its plan is written."""
    try:
        node = json.loads(at.plan.read_text())["node"]
    except (FileNotFoundError, NotADirectoryError, json.JSONDecodeError):
        return None
    return Link.of(node["address"]) if node else None


def links() -> list[Link]:
    """Of every cluster, also of one whose ``up`` has only chosen it yet."""
    found = [read_link(Layout(name)) for name in names()]
    return [link for link in found if link]


def links_locked() -> AbstractContextManager[None]:
    """Hold this while choosing a link, or while acting on there being none."""
    return cache.locked(cache.root() / "clusters" / ".links.lock")
