"""What the local cluster adds to an ``LLMService``, so that its pods need no 6 GB image.

A pod of the tiny image ``python-host`` mounts this machine's ``/usr``, the Python interpreter, the virtual
environment and the engine's source read-only, at identical paths, through claims (restricted pods may not use
hostPath). It is a plain ``spec.template``, as any user could write one: the operator knows nothing of it.
``python -m e2e.overlay`` prints it.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import yaml

IMAGE = "llmservice.local/python-host:1"
ROOT = Path(__file__).resolve().parent.parent


def host_folders() -> dict[str, Path]:
    """Claim name → folder of this machine that engine pods read."""
    folders = {
        "host-usr": Path("/usr"),
        "host-venv": Path(sys.prefix),
        "host-engine": ROOT / "engine",
    }
    interpreter = Path(sys.base_prefix).resolve()
    if not interpreter.is_relative_to("/usr"):
        folders["host-python"] = interpreter
    return folders


def template() -> dict[str, Any]:
    """The ``spec.template`` to add."""
    folders = host_folders()
    return {
        "spec": {
            "containers": [
                {
                    "name": "engine",
                    "command": [str(Path(sys.prefix) / "bin" / "llmservice-engine")],
                    "volumeMounts": [
                        {"name": name, "mountPath": str(path), "readOnly": True}
                        for name, path in folders.items()
                    ],
                }
            ],
            "volumes": [
                {"name": name, "persistentVolumeClaim": {"claimName": name, "readOnly": True}}
                for name in folders
            ],
        }
    }


def patch() -> dict[str, Any]:
    """A merge patch for an ``LLMService`` manifest."""
    return {"spec": {"engine": {"image": IMAGE}, "template": template()}}


def volume_and_claim(namespace: str, name: str, path: Path) -> list[dict[str, Any]]:
    """One folder of this machine as a claim that any number of pods may mount."""
    size = {"storage": "1Gi"}
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"{namespace}-{name}"},
        "spec": {
            "capacity": size,
            "accessModes": ["ReadWriteMany"],
            "storageClassName": "",
            "persistentVolumeReclaimPolicy": "Retain",
            "claimRef": {"namespace": namespace, "name": name},
            "hostPath": {"path": str(path), "type": "Directory"},
        },
    }
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "storageClassName": "",
            "volumeName": f"{namespace}-{name}",
            "resources": {"requests": size},
        },
    }
    return [volume, claim]


if __name__ == "__main__":
    print(yaml.safe_dump(patch(), sort_keys=False), end="")
