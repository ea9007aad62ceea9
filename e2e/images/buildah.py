"""buildah with a storage of its own under the cache, so that no build touches the machine's images."""

from __future__ import annotations

import configparser
import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from e2e.cluster import cache
from e2e.cluster.errors import ClusterError, MissingTool

# This machine's pip settings that a build needs: keys of pip.conf, or PIP_... in the environment.
PIP_SETTINGS = ("index-url", "extra-index-url", "trusted-host", "timeout", "proxy", "cert")
PIP_CONFIG = (
    Path("/etc/pip.conf"),
    Path.home() / ".pip" / "pip.conf",
    Path.home() / ".config" / "pip" / "pip.conf",
)
CERTIFICATES = ("REQUESTS_CA_BUNDLE", "SSL_CERT_FILE")


def storage() -> Path:
    return cache.root() / "buildah"


def run(*arguments: str) -> str:
    """One buildah command; returns what it printed.

    Raises:
        MissingTool: not root.
        ClusterError: with its last lines.
    """
    if os.geteuid() != 0:
        raise MissingTool("building images needs root (buildah's chroot isolation)")
    command = ["buildah", "--root", str(storage() / "root"), "--runroot", str(storage() / "run"), *arguments]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = "\n  | ".join((done.stdout + done.stderr).strip().splitlines()[-20:])
        raise ClusterError(f"buildah {arguments[0]} failed:\n  | {lines}")
    return done.stdout


def names() -> list[str]:
    """Every image that has a name."""
    listed = run("images", "--format", "{{.Name}}:{{.Tag}}", "--noheading").split()
    return [name for name in listed if "<none>" not in name]


def from_tree(tar: Path, name: str) -> None:
    """An image of one layer: the root file system in ``tar``."""
    container = run("from", "scratch").split()[-1]
    try:
        run("add", container, str(tar), "/")
        run("commit", container, name)
    finally:
        run("rm", container)


def build(dockerfile: Path, context: Path, base: str, name: str) -> None:
    """``docker build`` of a Dockerfile with ``BASE`` given; unchanged layers are taken from the last build."""
    with _secrets() as secrets:
        run(
            "bud", "--isolation", "chroot", "--network", "host", "--pull-never", "--layers",
            "--build-arg", f"BASE={base}", *secrets,
            "--tag", name, "--file", str(dockerfile), str(context),
        )  # fmt: skip


def export(name: str, archive: Path) -> None:
    """The image as a Docker archive, in one step."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    unfinished = archive.with_suffix(".tmp")
    unfinished.unlink(missing_ok=True)
    run("push", name, f"docker-archive:{unfinished}:{name}")
    unfinished.replace(archive)


def forget(*images: str) -> None:
    """Drop names; layers that nothing else needs go with them."""
    if images:
        run("rmi", *images)


@contextmanager
def alone() -> Iterator[None]:
    """One build at a time: the storage is shared."""
    with cache.locked(
        storage() / "lock", lambda: print("images: another build is running, waiting", flush=True)
    ):
        yield


def pip_settings(files: Sequence[Path] = PIP_CONFIG) -> dict[str, str]:
    """As pip reads them: the environment goes before the files, a later file before an earlier one."""
    parser = configparser.ConfigParser(interpolation=None)
    parser.read(files)
    found = {}
    for key in PIP_SETTINGS:
        variable = "PIP_" + ("DEFAULT_TIMEOUT" if key == "timeout" else key.upper().replace("-", "_"))
        value = os.environ.get(variable) or parser.get("global", key, fallback=None)
        if value:
            found[key] = " ".join(value.split())
    return found


@contextmanager
def _secrets() -> Iterator[list[str]]:
    """This machine's way to its package index, for the build's own commands only: no layer keeps it."""
    settings = pip_settings()
    certificates = settings.get("cert") or next(
        (os.environ[n] for n in CERTIFICATES if os.environ.get(n)), None
    )
    given = []
    with tempfile.TemporaryDirectory(prefix="llmservice-build-") as folder:
        if certificates and Path(certificates).is_file():
            settings["cert"] = "/run/secrets/certificates"
            given += ["--secret", f"id=certificates,src={Path(certificates).resolve()}"]
        path = Path(folder) / "pip.conf"
        path.write_text("\n".join(["[global]", *(f"{key} = {value}" for key, value in settings.items()), ""]))
        yield [*given, "--secret", f"id=pip.conf,src={path}"]
