"""The few API requests that bringing up a cluster takes; everything else is kubectl's business."""

from __future__ import annotations

import http.client
import json
import ssl
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from e2e.cluster.errors import ClusterError

FAKE_GPU = "nvidia.com/gpu"


class Api:
    """The API server, as the cluster's admin."""

    def __init__(self, url: str, pki: Path) -> None:
        self._host = urlsplit(url).netloc
        self._tls = ssl.create_default_context(cafile=str(pki / "ca.crt"))
        self._tls.load_cert_chain(pki / "admin.crt", pki / "admin.key")

    def get(self, path: str) -> dict[str, Any] | None:
        """None where there is no such object, or no answer."""
        try:
            return self._send("GET", path)
        except (OSError, http.client.HTTPException):
            return None

    def patch(self, path: str, change: dict[str, Any]) -> dict[str, Any]:
        answer = self._send("PATCH", path, change)
        if answer is None:
            raise ClusterError(f"{path} does not exist")
        return answer

    def _send(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any] | None:
        headers = {"User-Agent": "e2e-cluster"}
        if body is not None:
            headers["Content-Type"] = "application/merge-patch+json"
        connection = http.client.HTTPSConnection(self._host, timeout=10, context=self._tls)
        try:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            text = answer.read().decode()
        finally:
            connection.close()
        if answer.status == 404:
            return None
        if answer.status >= 300:
            raise ClusterError(f"{method} {path}: {answer.status} {text[:300]}")
        read: dict[str, Any] = json.loads(text)
        return read

    def wait_for_service_account(self, within: float) -> None:
        """The namespace ``default`` can hold pods once this exists."""
        self._until(lambda: self.get("/api/v1/namespaces/default/serviceaccounts/default") is not None,
                    within, "the service account of namespace default")  # fmt: skip

    def wait_for_node(self, name: str, within: float) -> None:
        def ready() -> bool:
            status = (self.get(f"/api/v1/nodes/{name}") or {}).get("status", {})
            return any(c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions", []))

        self._until(ready, within, f"node {name} to be Ready")

    def set_fake_gpus(self, node: str, count: int, within: float = 30) -> None:
        """Give the node ``count`` devices that nobody has; waits until the scheduler may hand them out."""
        path = f"/api/v1/nodes/{node}"
        self.patch(f"{path}/status", {"status": {"capacity": {FAKE_GPU: str(count)}}})

        def allocatable() -> bool:
            status = (self.get(path) or {}).get("status", {})
            return bool(status.get("allocatable", {}).get(FAKE_GPU, "0") == str(count))

        self._until(allocatable, within, f"{count} {FAKE_GPU} to be allocatable on {node}")

    @staticmethod
    def _until(wanted: Any, within: float, what: str) -> None:
        deadline = time.monotonic() + within
        while not wanted():
            if time.monotonic() > deadline:
                raise ClusterError(f"waited {within:.0f} s for {what}")
            time.sleep(0.1)
