"""Debian's static busybox as an image: makes and removes the folders of claims, and serves in tests."""

from __future__ import annotations

import subprocess
from pathlib import Path

from e2e.cluster import components
from e2e.images import oci

BUSYBOX = Path("/bin/busybox")  # of the package busybox-static


def ensure() -> oci.Image:
    applets = subprocess.run([BUSYBOX, "--list"], capture_output=True, text=True, check=True).stdout.split()
    content = oci.Content(
        files={"bin/busybox": BUSYBOX.read_bytes()},
        folders=("bin", "etc", "tmp", "proc", "sys", "dev"),
        links={f"bin/{applet}": "busybox" for applet in applets if applet != "busybox"},
    )
    return oci.ensure(components.HELPER_IMAGE, content)
