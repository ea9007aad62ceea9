"""The CRDs of kinds that a cluster may have: Prometheus operator, Gateway API, KEDA. From their Go modules.

Only the file of the one kind that is needed, kept in the cache under the module's version.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from e2e.cluster import build, cache
from e2e.cluster.errors import BuildFailed


@dataclass(frozen=True, slots=True)
class Crd:
    """One CRD and where its module keeps it."""

    name: str  # of the CustomResourceDefinition
    module: str
    version: str
    file: str


ALL = (
    Crd(
        "podmonitors.monitoring.coreos.com",
        "github.com/prometheus-operator/prometheus-operator",
        "v0.85.0",
        "example/prometheus-operator-crd/monitoring.coreos.com_podmonitors.yaml",
    ),
    Crd(
        "httproutes.gateway.networking.k8s.io",
        "sigs.k8s.io/gateway-api",
        "v1.6.3",  # the newest that Go 1.26 takes
        "config/crd/standard/gateway.networking.k8s.io_httproutes.yaml",
    ),
    Crd(
        "scaledobjects.keda.sh",
        "github.com/kedacore/keda/v2",
        "v2.21.0",
        "config/crd/bases/keda.sh_scaledobjects.yaml",
    ),
)


def ensure() -> dict[str, Path]:
    """Name → YAML file of each CRD, fetched where it is not in the cache yet.

    Raises:
        MissingTool: no Go.
        BuildFailed: the module cannot be fetched, or has no such file.
    """
    return {crd.name: _ensure(crd) for crd in ALL}


def _ensure(crd: Crd) -> Path:
    folder = cache.root() / "crds" / f"{crd.name}-{crd.version}"
    with cache.locked(cache.root() / "crds" / f".{crd.name}.lock"):
        if not folder.exists():
            source = _module(crd) / crd.file
            if not source.is_file():
                raise BuildFailed(f"{crd.module}@{crd.version} has no {crd.file}")
            with cache.new_folder(folder) as unfinished:
                shutil.copyfile(source, unfinished / "crd.yaml")
    return folder / "crd.yaml"


def _module(crd: Crd) -> Path:
    """The unpacked module, in Go's own cache."""
    command = [str(build.go()), "mod", "download", "-json", f"{crd.module}@{crd.version}"]
    environment = {**os.environ, "GOTOOLCHAIN": "local", "GOWORK": "off", "GOFLAGS": "-mod=mod"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/", env=environment)
    told = json.loads(done.stdout or "{}")
    if done.returncode or "Dir" not in told:
        raise BuildFailed(f"{crd.module}@{crd.version}: {told.get('Error') or done.stderr.strip()}")
    return Path(told["Dir"])
