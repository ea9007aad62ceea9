"""A real autoscaler follows the engines' own queue, with nothing installed but the chart; and its end hangs nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from e2e import target
from e2e.kubectl import Kubectl, until
from e2e.tests.test_faults import becomes_ready

CLIENTS = 24
SCALED: dict[str, Any] = {
    "engine": {"maxNumSeqs": 2},  # of the clients' requests, so that the others wait
    "resources": {"requests": {"cpu": "200m"}},  # three of them beside other tests' pods
    "rollout": {"drainTimeout": "30s"},
    "expose": {"service": {"type": "NodePort"}},
    "autoscaling": {
        "minReplicas": 1,
        "maxReplicas": 3,
        "metric": "WaitingRequests",
        "target": 2,
        "behavior": {
            "scaleUp": {"stabilizationWindowSeconds": 0},
            # The two metrics servers' figures may be 5 s apart: the calmest of the last 10 s counts.
            "scaleDown": {
                "stabilizationWindowSeconds": 10,
                "policies": [{"type": "Pods", "value": 10, "periodSeconds": 1}],
            },
        },
    },
}
APISERVICES = ("v1beta1.custom.metrics.k8s.io", "v1beta2.custom.metrics.k8s.io")


@dataclass
class Load:
    """Requests of so many clients at the same time, each beginning another when one has ended."""

    url: str
    answered: int = 0
    failed: list[str] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)

    def client(self, number: int) -> None:
        body = {"model": "smollm2", "prompt": f"{number} bottles", "max_tokens": 48, "ignore_eos": True}
        while not self.stop.is_set():
            try:
                answer = httpx.post(f"{self.url}/v1/completions", json=body, timeout=120)
            except httpx.HTTPError as error:
                self.failed.append(repr(error))
                continue
            if answer.status_code == 200:
                self.answered += 1
            else:
                self.failed.append(answer.text[:200])


@contextmanager
def load(url: str) -> Iterator[Load]:
    made = Load(url)
    threads = [threading.Thread(target=made.client, args=(number,)) for number in range(CLIENTS)]
    for thread in threads:
        thread.start()
    try:
        yield made
    finally:
        made.stop.set()
        for thread in threads:
            thread.join(150)


def replicas(kubectl: Kubectl) -> int:
    return int(kubectl.get("deployment", "smollm2")["spec"]["replicas"])


def test_waiting_requests_scale_from_1_to_3_and_back_and_no_edit_resets_them(
    cluster: target.Target, namespace: Kubectl
) -> None:
    assert cluster.local is not None
    namespace.apply(cluster.manifest(spec=SCALED))
    becomes_ready(namespace)
    assert replicas(namespace) == 1
    port = namespace.get("service", "smollm2")["spec"]["ports"][0]["nodePort"]

    with load(f"http://{cluster.local.node_ip}:{port}") as clients:
        began = time.monotonic()
        until(lambda: replicas(namespace), lambda count: count == 3, 60)  # it looks for new kinds every 30 s
        print(f"1 → 3 replicas wanted after {time.monotonic() - began:.1f} s")
        until(
            lambda: namespace.condition("smollm2", "AutoscalingActive"),
            lambda active: active["status"] == "True",
            20,
        )

        edited = {"expose": {"service": {"type": "NodePort", "labels": {"edited": "yes"}}}}
        namespace.apply(cluster.manifest(spec=SCALED | edited))  # as GitOps does, and it names no replicas
        until(
            lambda: namespace.get("service", "smollm2")["metadata"]["labels"].get("edited"),
            lambda label: label == "yes",
            20,
        )
        assert replicas(namespace) == 3
        until(lambda: namespace.get("llmsvc", "smollm2")["status"].get("readyReplicas"), lambda n: n == 3, 60)

    assert clients.failed == []
    assert clients.answered >= CLIENTS
    ended = time.monotonic()
    until(lambda: replicas(namespace), lambda count: count == 1, 40)
    print(f"back to 1 after {time.monotonic() - ended:.1f} s; {clients.answered} requests answered")


@pytest.mark.full
def test_with_the_operators_namespace_the_metrics_api_goes_and_no_namespace_hangs(
    cluster: target.Target,
) -> None:
    other = cluster.make_namespace("after-metrics")
    for name in APISERVICES:
        cluster.kubectl("wait", "--for=condition=Available", f"apiservice/{name}", "--timeout=60s")
    try:
        cluster.kubectl("delete", "namespace", target.OPERATOR_NAMESPACE, "--timeout=60s")
        assert cluster.kubectl("get", "apiservices", "--ignore-not-found", *APISERVICES) == ""
        other("delete", "namespace", other.namespace, "--timeout=30s")
        cluster.drop_volumes(other.namespace)
    finally:
        cluster.install_operator()
    for name in APISERVICES:
        until(
            lambda name=name: cluster.kubectl("get", "apiservice", "--ignore-not-found", name),  # type: ignore[misc]
            lambda found: "True" in found,
            60,
        )
