"""A real API server with its controllers (no node: the tests play the kubelet), the chart's CRD and rights."""

from __future__ import annotations

import itertools
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.cluster import launcher
from e2e.cluster.launcher import Cluster
from tests.operator.control_plane import kube
from tests.operator.control_plane.audit import Audit
from tests.operator.control_plane.fleet import ACCOUNT, NAMESPACE, Fleet
from tests.operator.control_plane.kube import Body, Kube

ROOT = Path(__file__).resolve().parents[3]
CHART = ROOT / "charts" / "llmservice-operator"
CRD = ROOT / "crds" / "llmservices.serving.llmservice.dev.yaml"
CLAIM = "models"

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    name = f"test-operator-{os.getpid()}"
    yield launcher.up(name, "control-plane")
    launcher.down(name)


@pytest.fixture(scope="session")
def kubernetes(cluster: Cluster) -> Kube:
    return prepared(cluster)


def prepared(cluster: Cluster) -> Kube:
    """With the chart's CRD, and its rights for an operator that runs outside."""
    made = Kube(cluster)
    made.kubectl("apply", "--server-side", "-f", str(CRD))
    made.kubectl(
        "wait", "--for=condition=Established", "crd/llmservices.serving.llmservice.dev", "--timeout=30s"
    )
    made.apply(WAITING)
    grant(made, cluster, ACCOUNT, NAMESPACE)
    return made


def grant(kubernetes: Kube, cluster: Cluster, release: str, namespace: str) -> None:
    """An install's namespace, and the rights that the chart gives it."""
    kubernetes.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    command = [str(cluster.helm), "template", release, str(CHART), f"--namespace={namespace}"]
    only = ["--show-only=templates/rbac.yaml", "--show-only=templates/serviceaccount.yaml"]
    rights = subprocess.run([*command, *only], text=True, capture_output=True, check=True).stdout
    kubernetes.kubectl("apply", "-f", "-", given=rights)


@pytest.fixture(scope="session")
def whole_fleet(kubernetes: Kube, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    made = Fleet(kubernetes, tmp_path_factory.mktemp("operators"))
    yield made
    made.kill_all()


@pytest.fixture
def operators(whole_fleet: Fleet) -> Fleet:
    """Two operators run, one of them leads."""
    whole_fleet.keep_two()
    return whole_fleet


@pytest.fixture
def audit(cluster: Cluster, operators: Fleet) -> Audit:
    """The operator's requests from now on."""
    return Audit(cluster.audit_log)


# The default class: its claims wait for a pod with a node, so nothing is wrong with them.
WAITING = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "waiting", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
    "provisioner": "kubernetes.io/no-provisioner",
    "volumeBindingMode": "WaitForFirstConsumer",
}


class Place:
    """A namespace of one test, and what the tests do in it."""

    def __init__(self, kubernetes: Kube, name: str) -> None:
        self.kube = kubernetes
        self.name = name

    def service(self, name: str = "chat", **spec: Any) -> Body:
        """A manifest as a user writes it."""
        whole = {
            "model": {"source": {"pvc": {"claimName": CLAIM}}},
            "accelerator": {"count": 0},
            "replicas": 1,
        } | spec
        return {
            "apiVersion": "serving.llmservice.dev/v1alpha1",
            "kind": "LLMService",
            "metadata": {"name": name, "namespace": self.name},
            "spec": {key: value for key, value in whole.items() if value is not None},
        }

    def apply(self, name: str = "chat", **spec: Any) -> Body:
        body = self.service(name, **spec)
        self.kube.apply(body)
        return body

    def claim(self, name: str = CLAIM) -> None:
        spec = {
            "accessModes": ["ReadWriteMany"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "",
        }
        body = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}
        self.kube.create("PersistentVolumeClaim", body, self.name)

    def get(self, kind: str, name: str = "chat") -> Body | None:
        return self.kube.get(kind, name, self.name)

    def must(self, kind: str, name: str = "chat") -> Body:
        return self.kube.must(kind, name, self.name)

    def wait_for(self, kind: str, name: str = "chat") -> Body:
        return kube.eventually(lambda: self.get(kind, name), what=f"{kind} {name} exists")

    def wait_reason(self, reason: str, type: str = "Ready", name: str = "chat") -> Body:  # noqa: A002
        """Wait until a condition has a reason; the condition."""

        def look() -> Body | None:
            found = kube.condition(self.get("LLMService", name), type)
            return found if found.get("reason") == reason else None

        return kube.eventually(
            look, what=f"{name} {type} {reason}: {(self.get('LLMService', name) or {}).get('status')}"
        )

    def wait_ready(self, name: str = "chat") -> Body:
        """Play the kubelet until the object is Ready; the object."""

        def look() -> Body | None:
            body = self.get("LLMService", name)
            ready = kube.condition(body, "Ready")
            current = body is not None and ready.get("observedGeneration") == body["metadata"]["generation"]
            if current and ready.get("status") == "True":
                return body
            self.kube.make_pods_ready(self.name, name)
            return None

        return kube.eventually(
            look, 20, f"{name} is Ready: {(self.get('LLMService', name) or {}).get('status')}"
        )

    def pod_of(self, step: str, attempt: int = 1) -> Body:
        """The pod of a job that looks up (``resolve``) or copies (``copy``), once it is there."""

        def look() -> Body | None:
            for job in self.kube.list("Job", self.name):
                args = job["spec"]["template"]["spec"]["containers"][0]["args"]
                number = job["metadata"]["annotations"]["serving.llmservice.dev/attempt"].rpartition("/")[2]
                if args[1] == step and int(number) == attempt:
                    selected = {"batch.kubernetes.io/job-name": job["metadata"]["name"]}.items()
                    for pod in self.kube.list("Pod", self.name):
                        if selected <= pod["metadata"]["labels"].items():
                            return pod
            return None

        found = kube.eventually(look, 20, f"a pod does {step}, attempt {attempt}")
        self.kube.bind(self.name, found["metadata"]["name"])
        return found

    def end(self, step: str, message: str, code: int = 0, attempt: int = 1) -> None:
        """Play the kubelet for that pod: its container ends."""
        self.kube.end_pod(self.name, self.pod_of(step, attempt)["metadata"]["name"], message, code)

    def versions(self) -> dict[str, str]:
        """resourceVersion of every child and object here."""
        kinds = ("LLMService", "Deployment", "Service", "ControllerRevision")
        return {
            f"{kind}/{body['metadata']['name']}": body["metadata"]["resourceVersion"]
            for kind in kinds
            for body in self.kube.list(kind, self.name)
        }


@pytest.fixture
def place(kubernetes: Kube) -> Iterator[Place]:
    """An empty namespace with the claim ``models``."""
    made = empty_place(kubernetes)
    made.claim()
    yield made
    kubernetes.delete("Namespace", made.name)


def empty_place(kubernetes: Kube) -> Place:
    name = f"t{next(_numbers)}"
    kubernetes.create("Namespace", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    kube.eventually(lambda: kubernetes.call("GET", f"/api/v1/namespaces/{name}/serviceaccounts/default"))
    return Place(kubernetes, name)
