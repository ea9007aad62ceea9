"""Restricted pod security, the same for engines and jobs: they share files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

USER: Final = 10001  # of our images

POD: Final[Mapping[str, Any]] = {
    "fsGroup": USER,
    "fsGroupChangePolicy": "OnRootMismatch",
    "runAsGroup": USER,
    "runAsNonRoot": True,
    "runAsUser": USER,
    "seccompProfile": {"type": "RuntimeDefault"},
}
CONTAINER: Final[Mapping[str, Any]] = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
}
