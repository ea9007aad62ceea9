"""The cluster that demo and tests run on, and what has to be on it first.

``CLUSTER`` chooses: ``local`` (made here by ``e2e.cluster``), ``kind`` (where Docker answers and kind is
installed; then also the default), ``current`` (the one that ``KUBECONFIG`` names; it must be able to pull
``OPERATOR_IMAGE`` and ``ENGINE_IMAGE``, and hold a claim ``smollm2`` with the model in the namespace).
"""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from e2e import machine, model, overlay
from e2e.cluster import cache, launcher
from e2e.images import operator as operator_image
from e2e.images import python_host
from e2e.kubectl import Kubectl

ROOT = Path(__file__).resolve().parent.parent
CHART = ROOT / "charts" / "llmservice-operator"
EXAMPLE = ROOT / "examples" / "smollm2-cpu.yaml"
OPERATOR_NAMESPACE = "llmservice-system"


@dataclass(frozen=True, slots=True)
class Target:
    """A running cluster with the images on it."""

    kind: str  # local, kind or current
    kubectl: Kubectl
    operator_image: str
    engine_image: str | None = None  # None: pods of the tiny image mount this machine's Python (overlay.py)
    local: launcher.Cluster | None = None

    def install_operator(self, *values: str) -> None:
        """``helm upgrade --install`` of the chart, waited for."""
        repository, _, tag = self.operator_image.rpartition(":")
        settings = [f"image.repository={repository}", f"image.tag={tag}", *values]
        arguments = [argument for value in settings for argument in ("--set-string", value)]
        self.kubectl.run_helm(
            "upgrade", "--install", "llmservice", str(CHART), "--namespace", OPERATOR_NAMESPACE,
            "--create-namespace", "--wait", "--timeout", "120s", *arguments,
        )  # fmt: skip

    def make_namespace(self, namespace: str) -> Kubectl:
        """A namespace under restricted pod security with the model's claim in it."""
        labels = {"pod-security.kubernetes.io/enforce": "restricted"}
        self.kubectl.apply(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": labels}}
        )
        inside = replace(self.kubectl, namespace=namespace)
        if self.kind != "current":
            inside.apply(*self._volumes(namespace))
        return inside

    def drop_namespace(self, namespace: str) -> None:
        # The objects first: the namespace controller would wait for half of the pods' longest grace.
        inside = replace(self.kubectl, namespace=namespace)
        inside("delete", "llmsvc", "--all", "--cascade=foreground", "--timeout=90s")
        inside("delete", "namespace", namespace, "--timeout=90s")
        self.drop_volumes(namespace)

    def leave_namespace(self, namespace: str) -> None:
        """:meth:`drop_namespace` without waiting, where the whole cluster goes soon."""
        if self.local is None:
            return self.drop_namespace(namespace)
        inside = replace(self.kubectl, namespace=namespace)
        inside("delete", "llmsvc", "--all", "--wait=false")
        inside("delete", "namespace", namespace, "--wait=false")
        return None

    def drop_volumes(self, namespace: str) -> None:
        """The persistent volumes that ``make_namespace`` made; they outlive their namespace."""
        if self.kind != "current":
            names = {
                made["metadata"]["name"]
                for made in self._volumes(namespace)
                if made["kind"] == "PersistentVolume"
            }
            self.kubectl("delete", "pv", "--ignore-not-found", *names)

    def _volumes(self, namespace: str) -> list[dict[str, Any]]:
        folders = {"smollm2": model.ensure(), **({} if self.engine_image else overlay.host_folders())}
        return [
            made for name, path in folders.items() for made in overlay.volume_and_claim(namespace, name, path)
        ]

    def manifest(self, **changes: Any) -> dict[str, Any]:
        """``examples/smollm2-cpu.yaml`` with the overlay of this cluster, if it has one, merged in."""
        made: dict[str, Any] = yaml.safe_load(EXAMPLE.read_text())
        cluster = {"spec": {"engine": {"image": self.engine_image}}} if self.engine_image else overlay.patch()
        complete: dict[str, Any] = merged(merged(made, cluster), changes)
        return complete


def bring_up(name: str) -> Target:
    """A cluster of the chosen kind with the images on it; a running one of that name is used again."""
    kind = machine.kind_of_cluster()
    if kind == "current":
        kubeconfig = Path(os.environ.get("KUBECONFIG", Path.home() / ".kube" / "config"))
        return Target(kind, Kubectl(kubeconfig), os.environ["OPERATOR_IMAGE"], os.environ["ENGINE_IMAGE"])
    if kind == "kind":
        return _kind(name)
    image = operator_image.ensure()
    cluster = launcher.up(name, "node")
    for archive in (image.archive, python_host.ensure().archive):
        launcher.import_image(cluster, archive)
    kubectl = Kubectl(cluster.kubeconfig, str(cluster.kubectl), str(cluster.helm))
    return Target(kind, kubectl, image.name, local=cluster)


def take_down(name: str) -> None:
    kind = machine.kind_of_cluster()
    if kind == "kind":
        subprocess.run(["kind", "delete", "cluster", "--name", name], check=True)
    elif kind == "local":
        launcher.down(name)


def merged(base: Any, change: Any) -> Any:
    """JSON merge patch (RFC 7386)."""
    if not isinstance(change, dict):
        return change
    result = dict(base) if isinstance(base, dict) else {}
    for key, value in change.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


def _kind(name: str) -> Target:
    """kind: the images by Docker, the model's folder mounted into the node. Not exercised in CI."""
    folder = str(model.ensure())
    images = [f"llmservice.local/llmservice-{part}:dev" for part in ("operator", "engine")]
    for part, image in zip(("operator", "engine"), images, strict=True):
        _run("docker", "build", "-t", image, "-f", f"{part}/Dockerfile", ".")
    node = {
        "role": "control-plane",
        "extraMounts": [{"hostPath": folder, "containerPath": folder, "readOnly": True}],
    }
    config = {"kind": "Cluster", "apiVersion": "kind.x-k8s.io/v1alpha4", "nodes": [node]}
    kubeconfig = cache.root() / f"kind-{name}.kubeconfig"
    if name not in _run("kind", "get", "clusters").split():
        _run("kind", "create", "cluster", "--name", name, "--config", "-", stdin=json.dumps(config))
    _run("kind", "export", "kubeconfig", "--name", name, "--kubeconfig", str(kubeconfig))
    _run("kind", "load", "docker-image", *images, "--name", name)
    return Target("kind", Kubectl(kubeconfig), images[0], engine_image=images[1])


def _run(*argv: str, stdin: str | None = None) -> str:
    done = subprocess.run(argv, cwd=ROOT, input=stdin, text=True, stdout=subprocess.PIPE, check=True)
    return done.stdout
