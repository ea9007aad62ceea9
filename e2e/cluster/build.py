"""The Go modules under ``go/``, each built once into the cache under a key made of its files and Go's version.

Standard library only, so that it can run beside the Python install: ``python3 -m e2e.cluster.build``.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from e2e.cluster import cache
from e2e.cluster.errors import BuildFailed, MissingTool

MODULES = Path(__file__).parent / "go"
SYSTEM_GO = "/usr/local/go/bin"  # where a plain unpacking of Go puts it
COMMON_LDFLAGS = "-s -w"


@dataclass(frozen=True, slots=True)
class Module:
    """One Go module and the one binary that it makes."""

    name: str  # the folder under go/
    binary: str
    versioned_by: str = ""  # the required module whose version is this binary's; empty for our own code
    package: str = "."
    version_variables: tuple[str, ...] = ()  # set to the version, with its leading v
    links: tuple[str, ...] = ()
    minutes: float = 1.5  # of a cold build on two cores, for the progress line
    by_default: bool = True


# In the order in which a cluster needs them; what takes longest is also needed first.
ALL = (
    Module(
        "kubernetes",
        "kube",
        "k8s.io/kubernetes",
        version_variables=("k8s.io/component-base/version.gitVersion",),
        links=(
            "kube-apiserver",
            "kube-controller-manager",
            "kube-scheduler",
            "kubelet",
            "kube-proxy",
            "kubectl",
        ),
        minutes=7,
    ),
    Module("etcd", "etcd", "go.etcd.io/etcd/server/v3", minutes=0.5),
    Module("pause", "pause", minutes=0.1),
    Module("coredns", "coredns", "github.com/coredns/coredns"),
    Module(
        "local-path-provisioner",
        "local-path-provisioner",
        "github.com/rancher/local-path-provisioner",
        package="github.com/rancher/local-path-provisioner",
        version_variables=("main.VERSION",),
    ),
    Module(
        "helm",
        "helm",
        "helm.sh/helm/v4",
        package="helm.sh/helm/v4/cmd/helm",
        version_variables=("helm.sh/helm/v4/internal/version.version",),
        minutes=2,
    ),
    Module(
        "kwok",
        "kwok",
        "sigs.k8s.io/kwok",
        package="sigs.k8s.io/kwok/cmd/kwok",
        version_variables=("sigs.k8s.io/kwok/pkg/consts.Version",),
        by_default=False,
    ),
    Module("kstatus", "kstatus", "sigs.k8s.io/cli-utils", minutes=1, by_default=False),
)
BY_NAME = {module.name: module for module in ALL}


def go() -> Path:
    """The ``go`` command.

    Raises:
        MissingTool: Go is on neither the path nor its usual place.
    """
    found = shutil.which("go") or shutil.which("go", path=SYSTEM_GO)
    if not found:
        raise MissingTool("Go is missing: install Go 1.26 or newer (it builds Kubernetes), or add it to PATH")
    return Path(found)


def version(module: Module) -> str:
    """Read from the module's go.mod, e.g. ``v1.37.2``; ``v0`` for our own code."""
    if not module.versioned_by:
        return "v0"
    text = (MODULES / module.name / "go.mod").read_text()
    found = re.search(rf"^\s*(?:require\s+)?{re.escape(module.versioned_by)} (v\S+)", text, re.MULTILINE)
    if not found:
        raise BuildFailed(f"{module.name}/go.mod requires no {module.versioned_by}")
    return found.group(1)


def ldflags(module: Module) -> str:
    given = version(module)
    settings = [f"-X {name}={given}" for name in module.version_variables]
    if module.name == "kubernetes":
        major, minor, _ = given.removeprefix("v").split(".", 2)
        settings += [f"-X k8s.io/component-base/version.git{part}={value}"
                     for part, value in (("Major", major), ("Minor", minor))]  # fmt: skip
    return " ".join([COMMON_LDFLAGS, *settings])


def key(module: Module, go_version: str, folder: Path = MODULES) -> str:
    """Twelve hex digits that change with any file of the module, the flags, or Go's version."""
    digest = hashlib.sha256(f"{go_version}\n{module.package}\n{ldflags(module)}\n{module.links}\n".encode())
    for path in sorted((folder / module.name).iterdir()):
        if path.name in ("go.mod", "go.sum") or path.suffix == ".go":
            digest.update(f"{path.name}\n".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()[:12]


def folder_of(name: str) -> Path:
    """Where the built module is, or would be."""
    asked = subprocess.run([go(), "env", "GOVERSION"], capture_output=True, text=True, check=True)
    return cache.root() / "bin" / f"{name}-{key(BY_NAME[name], asked.stdout.strip())}"


def ensure(names: Sequence[str] = ()) -> dict[str, Path]:
    """Build what is not in the cache yet; returns name → folder with the binary and its links.

    Two builds at once share: the second waits for the first and then finds the binary.

    Raises:
        MissingTool: no Go.
        BuildFailed: a build ended with an error, or an unknown name.
    """
    unknown = [name for name in names if name not in BY_NAME]
    if unknown:
        raise BuildFailed(f"no module {unknown[0]}: {', '.join(BY_NAME)}")
    wanted = [module for module in ALL if module.name in names or (not names and module.by_default)]
    folders = {module.name: folder_of(module.name) for module in wanted}
    missing = [module for module in wanted if not folders[module.name].exists()]
    for number, module in enumerate(missing, 1):
        line = ProgressLine(f"build {number}/{len(missing)}: {module.name} {version(module)}")
        lock = cache.root() / "bin" / f".{module.name}.lock"
        with cache.locked(lock, lambda line=line: line.show("another build has it, waiting")):  # type: ignore[misc]
            if not folders[module.name].exists():
                _build(module, folders[module.name], line)
    return folders


def _build(module: Module, final: Path, line: ProgressLine) -> None:
    environment = {**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off"}
    command = [str(go()), "build", "-v", "-trimpath", "-ldflags", ldflags(module), "-mod=readonly"]
    started = time.monotonic()
    with cache.new_folder(final) as unfinished:
        output: list[str] = []
        with subprocess.Popen(
            [*command, "-o", str(unfinished / module.binary), module.package],
            cwd=MODULES / module.name, env=environment, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        ) as process:  # fmt: skip
            assert process.stdout is not None
            line.show(f"about {module.minutes:g} min when cold")
            try:
                for text in process.stdout:
                    output.append(text.rstrip())
                    line.tick(
                        f"{len(output)} steps, {time.monotonic() - started:.0f} s (cold: {module.minutes:g} min)"
                    )
            except BaseException:
                process.terminate()
                raise
        if process.returncode:
            last = "\n  | ".join(output[-20:])
            raise BuildFailed(f"building {module.name} failed; the last lines were\n  | {last}")
        for link in module.links:
            (unfinished / link).symlink_to(module.binary)
    line.done(f"{time.monotonic() - started:.0f} s")


class ProgressLine:
    """One line that is written over on a terminal; elsewhere a new line every 30 s."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._last = 0.0

    def show(self, text: str, end: str | None = None) -> None:
        self._last = time.monotonic()
        if sys.stderr.isatty():
            print(f"\r\x1b[2K{self._what}: {text}", end=end or "", file=sys.stderr, flush=True)
        else:
            print(f"{self._what}: {text}", file=sys.stderr, flush=True)

    def tick(self, text: str) -> None:
        if time.monotonic() - self._last > (0.2 if sys.stderr.isatty() else 30):
            self.show(text)

    def done(self, text: str) -> None:
        self.show(f"done in {text}", end="\n")


if __name__ == "__main__":
    ensure(sys.argv[1:])
