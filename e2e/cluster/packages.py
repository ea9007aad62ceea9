"""The Debian packages that a node and its images need."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from e2e.cluster import cache
from e2e.cluster.errors import ClusterError, MissingTool

# package → a file that it brings
NODE = {
    "containerd": "/usr/bin/containerd",
    "runc": "/usr/sbin/runc",
    "containernetworking-plugins": "/usr/lib/cni/bridge",
    "conntrack": "/usr/sbin/conntrack",
    "iptables": "/usr/sbin/iptables",
    "ipset": "/usr/sbin/ipset",
    "socat": "/usr/bin/socat",
    "ebtables": "/usr/sbin/ebtables",
    "ethtool": "/usr/sbin/ethtool",
    "iproute2": "/sbin/ip",
    "util-linux": "/usr/bin/unshare",
    "busybox-static": "/bin/busybox",
}
IMAGES = {
    "mmdebstrap": "/usr/bin/mmdebstrap",
    "buildah": "/usr/bin/buildah",
    "runc": "/usr/sbin/runc",
}
POLICY = Path("/usr/sbin/policy-rc.d")  # its exit code 101 tells packages to start no service


def missing(wanted: dict[str, str]) -> list[str]:
    return [package for package, file in wanted.items() if not Path(file).exists()]


def ensure(wanted: dict[str, str]) -> list[str]:
    """Install what is not there; returns the packages installed.

    Raises:
        MissingTool: packages are missing and cannot be installed here (no apt-get, not root).
        ClusterError: apt-get failed.
    """
    if not missing(wanted):
        return []
    with cache.locked(cache.root() / "apt.lock"):
        needed = missing(wanted)
        if not needed:
            return []
        listed = " ".join(needed)
        if not shutil.which("apt-get"):
            raise MissingTool(f"these Debian packages are missing, and there is no apt-get here: {listed}")
        if os.geteuid() != 0:
            raise MissingTool(f"these packages are missing: as root, apt-get install {listed}")
        print(f"packages: installing {listed}", flush=True)
        with _no_services():
            _apt_get("update", "-qq")
            _apt_get("install", "-y", "-qq", "--no-install-recommends", *needed)
        return needed


def _apt_get(*arguments: str) -> None:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(
        ["apt-get", *arguments], env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise ClusterError(f"apt-get {arguments[0]} failed: {_last_line((done.stderr, done.stdout))}")


def _last_line(texts: Sequence[str]) -> str:
    lines = [line for text in texts for line in text.strip().splitlines()[-1:]]
    return lines[0] if lines else "it printed nothing"


@contextmanager
def _no_services() -> Iterator[None]:
    """Debian starts containerd on installation; the clusters run their own."""
    if POLICY.exists():
        yield
        return
    POLICY.write_text("#!/bin/sh\nexit 101\n")
    POLICY.chmod(0o755)
    try:
        yield
    finally:
        POLICY.unlink()
