"""Kubeconfig files, certificates inlined so that each file stands alone."""

from __future__ import annotations

import base64
from pathlib import Path

import yaml


def render(cluster: str, url: str, pki: Path, client: str) -> str:
    """The kubeconfig of one client certificate of ``pki``, for one API server."""
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": cluster,
                    "cluster": {"server": url, "certificate-authority-data": _base64(pki / "ca.crt")},
                }
            ],
            "users": [
                {
                    "name": client,
                    "user": {
                        "client-certificate-data": _base64(pki / f"{client}.crt"),
                        "client-key-data": _base64(pki / f"{client}.key"),
                    },
                }
            ],
            "contexts": [{"name": cluster, "context": {"cluster": cluster, "user": client}}],
            "current-context": cluster,
        },
        sort_keys=False,
    )


def write(path: Path, text: str) -> None:
    """Readable by its owner only: it holds a key."""
    path.touch(mode=0o600)
    path.write_text(text)


def _base64(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
