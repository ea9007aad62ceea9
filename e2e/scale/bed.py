"""The cluster that is measured on: a control plane, fake nodes, the chart's CRD and rights, one claim."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from llmservice_operator.api import contract

from e2e.cluster import launcher
from e2e.cluster.launcher import ROOT, Cluster
from e2e.scale import kwok
from e2e.scale.api import DEPLOYMENTS, SERVICES, Api, Body
from e2e.scale.operators import ACCOUNT, NAMESPACE

CHART = ROOT / "charts" / "llmservice-operator"
CRD = ROOT / "crds" / "llmservices.serving.llmservice.dev.yaml"
OURS, FLOOR = "services", "floor"  # namespaces
CLAIM = "models"


@dataclass(frozen=True, slots=True)
class Bed:
    cluster: Cluster
    api: Api
    nodes: int


@contextmanager
def made(count: int, *, silent: bool) -> Iterator[Bed]:
    """Room for ``count`` services, their surges, and as many bare Deployments. It is gone afterwards."""
    cluster = launcher.up(f"bench-{os.getpid()}-{count}", "control-plane")
    try:
        api = Api(cluster.kubeconfig)
        _install(cluster)
        kwok.engines(cluster, contract.PORT, silent=silent)
        nodes = kwok.start(cluster, api, 2 * count + count // 4 + kwok.DEVICES, _own_address())
        for name in (OURS, FLOOR):
            _namespace(api, name)
        _claim(api)
        yield Bed(cluster, api, nodes)
    finally:
        launcher.down(cluster.name)


def services(count: int) -> list[tuple[str, Body]]:
    """What a user writes, with where it goes."""
    spec = {
        "model": {"source": {"pvc": {"claimName": CLAIM, "path": "llama"}}},
        "accelerator": {"count": 1},
        "replicas": 1,
    }
    return [
        (
            SERVICES.format(f"/namespaces/{OURS}"),
            {
                "apiVersion": "serving.llmservice.dev/v1alpha1",
                "kind": "LLMService",
                "metadata": {"name": name(number)},
                "spec": spec,
            },
        )
        for number in range(count)
    ]


def floor(count: int) -> list[tuple[str, Body]]:
    """What Kubernetes alone does with as many Deployments and Services."""
    return [one for number in range(count) for one in _bare(name(number))]


def name(number: int) -> str:
    return f"chat-{number}"


def _bare(called: str) -> tuple[tuple[str, Body], tuple[str, Body]]:
    labels = {"app": called}
    container = {
        "name": "engine",
        "image": "registry.example/engine:1",
        "ports": [{"containerPort": contract.PORT}],
        "resources": {"limits": {"nvidia.com/gpu": "1"}},
        "volumeMounts": [{"name": "model", "mountPath": "/mnt/model", "readOnly": True}],
    }
    volume = {"name": "model", "persistentVolumeClaim": {"claimName": CLAIM}}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container], "volumes": [volume]}}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": called},
        "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": template},
    }
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": called},
        "spec": {"selector": labels, "ports": [{"port": 80, "targetPort": contract.PORT}]},
    }
    return (
        (DEPLOYMENTS.format(f"/namespaces/{FLOOR}"), deployment),
        (f"/api/v1/namespaces/{FLOOR}/services", service),
    )


def _install(cluster: Cluster) -> None:
    kubectl = [str(cluster.kubectl), f"--kubeconfig={cluster.kubeconfig}"]

    def run(*argv: str, given: str | None = None) -> str:
        return subprocess.run(argv, input=given, text=True, capture_output=True, check=True).stdout

    run(*kubectl, "create", "namespace", NAMESPACE)
    run(*kubectl, "apply", "--server-side", f"--filename={CRD}")
    run(*kubectl, "wait", "--for=condition=Established", f"--filename={CRD}", "--timeout=30s")
    rights = run(
        *(str(cluster.helm), "template", ACCOUNT, str(CHART), f"--namespace={NAMESPACE}"),
        *(f"--show-only=templates/{name}.yaml" for name in ("rbac", "serviceaccount")),
    )
    run(*kubectl, "apply", "--filename=-", given=rights)


def _namespace(api: Api, called: str) -> None:
    api.call("POST", "/api/v1/namespaces", {"metadata": {"name": called}})
    account = f"/api/v1/namespaces/{called}/serviceaccounts/default"
    while api.get(account) is None:  # without it no pod is let in
        time.sleep(0.1)


def _claim(api: Api) -> None:
    """One volume for each namespace's claim; many pods may have it."""
    asked = {
        "accessModes": ["ReadWriteMany"],
        "resources": {"requests": {"storage": "20Gi"}},
        "storageClassName": "",
    }
    for namespace in (OURS, FLOOR):
        volume = {
            "accessModes": ["ReadWriteMany"],
            "capacity": {"storage": "20Gi"},
            "claimRef": {"namespace": namespace, "name": CLAIM},
            "hostPath": {"path": "/nowhere"},
        }
        api.call("POST", "/api/v1/persistentvolumes", {"metadata": {"name": namespace}, "spec": volume})
        claims = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"
        api.call("POST", claims, {"metadata": {"name": CLAIM}, "spec": asked})
        while (api.get(f"{claims}/{CLAIM}") or {})["status"].get("phase") != "Bound":
            time.sleep(0.1)


def _own_address() -> str:
    """This machine's, for the pods: an endpoint must not be on the loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # sends nothing
        return str(probe.getsockname()[0])
