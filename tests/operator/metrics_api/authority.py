"""Certificates as clusters have them: a front proxy's authority, and whom it signs for."""

from __future__ import annotations

import ssl
from pathlib import Path

from cryptography.hazmat.primitives import serialization

from e2e.cluster import pki
from e2e.cluster.pki import Pair


def pem(authority: Pair) -> str:
    return authority.certificate.public_bytes(serialization.Encoding.PEM).decode()


def configmap(authority: Pair, names: str = '["front-proxy-client"]') -> dict[str, object]:
    """``kube-system/extension-apiserver-authentication``."""
    return {
        "data": {
            "client-ca-file": "",
            "requestheader-client-ca-file": pem(authority),
            "requestheader-allowed-names": names,
            "requestheader-username-headers": '["X-Remote-User"]',
            "requestheader-group-headers": '["X-Remote-Group"]',
            "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
        }
    }


def client(
    believes: bytes, folder: Path, signer: Pair | None, name: str = "front-proxy-client"
) -> ssl.SSLContext:
    """TLS of a client that believes these authorities and shows a certificate of ``signer``, if one is given."""
    made = ssl.create_default_context(cadata=believes.decode())
    if signer is not None:
        pki.client(signer, name).write(folder, name)
        made.load_cert_chain(folder / f"{name}.crt", folder / f"{name}.key")
    return made
