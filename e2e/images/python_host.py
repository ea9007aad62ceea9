"""A root file system with nothing in it but names: pods mount this machine's ``/usr`` and Python into it."""

from __future__ import annotations

from e2e.images import oci

NAME = "llmservice.local/python-host:1"
USER = 10001
PASSWD = f"root:x:0:0:root:/:/bin/sh\nllmservice:x:{USER}:{USER}:llmservice:/tmp:/bin/sh\n"
CONTENT = oci.Content(
    files={
        "etc/passwd": PASSWD.encode(),
        "etc/group": f"root:x:0:\nllmservice:x:{USER}:\n".encode(),
        "etc/nsswitch.conf": b"passwd: files\ngroup: files\nhosts: files dns\n",
        "etc/ssl/certs/.keep": b"",
    },
    folders=("usr", "tmp", "etc", "etc/ssl", "etc/ssl/certs", "proc", "sys", "dev", "run", "var", "home", "root",
             "opt", "mnt", "models"),
    links={name: f"usr/{name}" for name in ("bin", "sbin", "lib", "lib64")},
    environment=("PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/tmp"),
)  # fmt: skip


def ensure() -> oci.Image:
    return oci.ensure(NAME, CONTENT)
