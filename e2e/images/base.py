"""The stand-in for ``python:3.11-slim`` where no registry can be reached: Debian's own python3, by mmdebstrap."""

from __future__ import annotations

import hashlib
import platform
import shlex
import subprocess
import tempfile
from pathlib import Path

from e2e.cluster import cache, packages
from e2e.cluster.errors import ClusterError
from e2e.images import buildah

INCLUDED = ("ca-certificates", "python3", "python3-venv")
LEFT_OUT = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*")
SOURCES = Path("/etc/apt")


def release() -> str:
    """Debian's code name, e.g. ``bookworm``."""
    known = platform.freedesktop_os_release()
    if known.get("ID") != "debian":
        raise ClusterError(
            f"the base image is made from Debian's own packages; this is {known.get('PRETTY_NAME')}"
        )
    return known["VERSION_CODENAME"]


def name() -> str:
    """Changes with what the base is made of."""
    made_of = hashlib.sha256(repr((release(), INCLUDED, LEFT_OUT)).encode()).hexdigest()[:12]
    return f"llmservice.local/debian-python:{made_of}"


def ensure() -> str:
    """The base image in buildah's storage; returns its name."""
    wanted = name()
    if wanted in buildah.names():
        return wanted
    packages.ensure(packages.IMAGES)
    print("images: Debian base with python3 (half a minute)", flush=True)
    with tempfile.TemporaryDirectory(prefix="base-", dir=cache.root()) as folder:
        tar = Path(folder) / "base.tar"
        options = Path(folder) / "apt.conf"
        options.write_text(_apt_options())
        _run(
            "mmdebstrap", "--quiet", "--variant=minbase", f"--include={','.join(INCLUDED)}",
            f"--aptopt={options}",
            *(f"--dpkgopt=path-exclude={path}" for path in LEFT_OUT),
            # This machine's package sources are not the image's.
            "--customize-hook=rm -f \"$1\"/etc/apt/sources.list \"$1\"/etc/apt/sources.list.d/* "
            "\"$1\"/etc/apt/apt.conf.d/99mmdebstrap",
            release(), str(tar), *_sources(),
        )  # fmt: skip
        buildah.from_tree(tar, wanted)
    return wanted


def _sources() -> list[str]:
    found = [SOURCES / "sources.list", *sorted((SOURCES / "sources.list.d").glob("*"))]
    debian = [path for path in found if path.is_file() and "debian" in path.read_text()]
    return [str(path) for path in debian]


def _apt_options() -> str:
    """How this machine reaches its package sources (proxies, certificates, dates)."""
    dumped = subprocess.run(["apt-config", "dump"], capture_output=True, text=True, check=True).stdout
    return "\n".join(line for line in dumped.splitlines() if line.startswith("Acquire::")) + "\n"


def _run(*argv: str) -> None:
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = "\n  | ".join((done.stdout + done.stderr).strip().splitlines()[-10:])
        raise ClusterError(f"{shlex.quote(argv[0])} failed:\n  | {lines}")
