"""A person's and a kubelet's view of the test cluster: kubectl for what people type, HTTP for quick looks."""

from __future__ import annotations

import base64
import json
import ssl
import subprocess
import tempfile
import time
from collections.abc import Callable
from typing import Any, TypeVar

import httpx
import yaml

from e2e.cluster.launcher import Cluster

PLURALS = {
    "LLMService": "/apis/serving.llmservice.dev/v1alpha1{}/llmservices",
    "Deployment": "/apis/apps/v1{}/deployments",
    "ReplicaSet": "/apis/apps/v1{}/replicasets",
    "StatefulSet": "/apis/apps/v1{}/statefulsets",
    "ControllerRevision": "/apis/apps/v1{}/controllerrevisions",
    "Service": "/api/v1{}/services",
    "Job": "/apis/batch/v1{}/jobs",
    "Pod": "/api/v1{}/pods",
    "PersistentVolumeClaim": "/api/v1{}/persistentvolumeclaims",
    "Namespace": "/api/v1{}/namespaces",
    "Lease": "/apis/coordination.k8s.io/v1{}/leases",
}

T = TypeVar("T")
Body = dict[str, Any]


def eventually(look: Callable[[], T | None], within: float = 15.0, what: str = "") -> T:
    """The first true answer of ``look``."""
    deadline = time.monotonic() + within
    while True:
        found = look()
        if found:
            return found
        assert time.monotonic() < deadline, f"not within {within:g} s: {what or look}"
        time.sleep(0.05)


class Kube:
    """The cluster as its admin."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        config = yaml.safe_load(cluster.kubeconfig.read_text())
        self.server = config["clusters"][0]["cluster"]["server"]
        self.ca = config["clusters"][0]["cluster"]["certificate-authority-data"]
        user = config["users"][0]["user"]
        tls = ssl.create_default_context(cadata=base64.b64decode(self.ca).decode())
        with tempfile.NamedTemporaryFile("wb") as pem:
            pem.write(base64.b64decode(user["client-certificate-data"]))
            pem.write(base64.b64decode(user["client-key-data"]))
            pem.flush()
            tls.load_cert_chain(pem.name)
        self._http = httpx.Client(base_url=self.server, verify=tls, timeout=20)

    # --- what people type ------------------------------------------------------------------------------------
    def kubectl(
        self, *arguments: str, given: str | None = None, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        command = [str(self.cluster.kubectl), f"--kubeconfig={self.cluster.kubeconfig}", *arguments]
        done = subprocess.run(command, input=given, text=True, capture_output=True, check=False, timeout=60)
        assert not check or done.returncode == 0, done.stderr
        return done

    def apply(self, *bodies: Body, check: bool = True) -> subprocess.CompletedProcess[str]:
        done = self.kubectl("apply", "-f", "-", given=yaml.safe_dump_all(bodies), check=False)
        assert not check or done.returncode == 0, done.stderr
        return done

    # --- quick looks and writes ------------------------------------------------------------------------------
    def call(
        self, method: str, path: str, body: Any = None, content_type: str = "application/json"
    ) -> Body | None:
        """None for 404."""
        content = None if body is None else json.dumps(body)
        answer = self._http.request(method, path, content=content, headers={"Content-Type": content_type})
        if answer.status_code == 404:
            return None
        assert answer.status_code < 300, f"{method} {path}: {answer.status_code} {answer.text[:500]}"
        found: Body = answer.json()
        return found

    def create(self, kind: str, body: Body, namespace: str = "") -> Body:
        made = self.call("POST", path(kind, namespace), body)
        assert made is not None
        return made

    def get(self, kind: str, name: str, namespace: str = "") -> Body | None:
        return self.call("GET", path(kind, namespace, name))

    def must(self, kind: str, name: str, namespace: str = "") -> Body:
        found = self.get(kind, name, namespace)
        assert found is not None, f"{kind} {namespace}/{name} does not exist"
        return found

    def list(self, kind: str, namespace: str = "") -> list[Body]:
        found = self.call("GET", path(kind, namespace))
        return [] if found is None else list(found["items"])

    def patch(self, kind: str, name: str, namespace: str, change: Any, subresource: str = "") -> Body:
        where = path(kind, namespace, name) + (f"/{subresource}" if subresource else "")
        done = self.call("PATCH", where, change, "application/merge-patch+json")
        assert done is not None, f"{where} does not exist"
        return done

    def delete(self, kind: str, name: str, namespace: str = "", propagation: str = "Background") -> None:
        self.call("DELETE", path(kind, namespace, name), {"propagationPolicy": propagation})

    # --- the kubelet's part ----------------------------------------------------------------------------------
    def make_pods_ready(self, namespace: str, name: str) -> int:
        """Say of each pod of an LLMService what a kubelet would: it runs and is ready."""
        selected = {"app.kubernetes.io/instance": name, "app.kubernetes.io/component": "engine"}.items()
        pods = [
            pod
            for pod in self.list("Pod", namespace)
            if selected <= pod["metadata"]["labels"].items() and "deletionTimestamp" not in pod["metadata"]
        ]
        for pod in pods:
            if (pod.get("status") or {}).get("phase") != "Running":
                self.patch("Pod", pod["metadata"]["name"], namespace, {"status": _running(pod)}, "status")
        return len(pods)

    def bind(self, namespace: str, name: str) -> None:
        """Play the scheduler: the pod has a node."""
        if "nodeName" in self.must("Pod", name, namespace)["spec"]:
            return
        target = {"apiVersion": "v1", "kind": "Node", "name": "nowhere"}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
        self.call("POST", path("Pod", namespace, name) + "/binding", body)

    def end_pod(self, namespace: str, name: str, message: str, code: int = 0) -> None:
        """Say of a job's pod what a kubelet would: its container has ended with this termination message."""
        pod = self.must("Pod", name, namespace)
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        ended = {
            "exitCode": code,
            "reason": "Completed" if code == 0 else "Error",
            "message": message,
            "startedAt": now,
            "finishedAt": now,
            "containerID": "containerd://0",
        }
        container = {
            "name": pod["spec"]["containers"][0]["name"],
            "image": pod["spec"]["containers"][0]["image"],
            "imageID": "",
            "ready": False,
            "restartCount": 0,
            "state": {"terminated": ended},
        }
        status = {
            "phase": "Succeeded" if code == 0 else "Failed",
            "startTime": now,
            "containerStatuses": [container],
            "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": now}],
        }
        self.patch("Pod", name, namespace, {"status": status}, "status")


def path(kind: str, namespace: str = "", name: str = "") -> str:
    within = f"/namespaces/{namespace}" if namespace else ""
    return PLURALS[kind].format(within) + (f"/{name}" if name else "")


def condition(body: Body | None, type: str) -> Body:  # noqa: A002
    """A condition of an object's status, {} where it has none."""
    found = ((body or {}).get("status") or {}).get("conditions") or []
    return next((one for one in found if one["type"] == type), {})


def _running(pod: Body) -> Body:
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    conditions = [
        {"type": type, "status": "True", "lastTransitionTime": now, "lastProbeTime": None}
        for type in ("PodScheduled", "Initialized", "ContainersReady", "Ready")  # noqa: A001
    ]
    containers = [
        {
            "name": container["name"],
            "image": container["image"],
            "imageID": "",
            "containerID": "containerd://0",
            "ready": True,
            "started": True,
            "restartCount": 0,
            "state": {"running": {"startedAt": now}},
        }
        for container in pod["spec"]["containers"]
    ]
    return {"phase": "Running", "startTime": now, "conditions": conditions, "containerStatuses": containers}
