"""Accepted streams are never cut: through an edit, a scale-down, a deleted pod, an eviction, a killed operator."""

from __future__ import annotations

import json
import statistics
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import httpx
import pytest

from e2e import target
from e2e.kubectl import Kubectl, until
from e2e.tests.test_faults import becomes_ready

STREAMS = 20
TOKENS = 600  # of each stream: about 40 s where twenty run at once
PACE = 0.5  # seconds between two starts


@dataclass
class Load:
    """Streams at a steady rate, one after another begun; what became of each."""

    url: str
    whole: int = 0
    cut: list[str] = field(default_factory=list)
    refused: int = 0  # before anything was sent: counted, and begun again
    seconds: list[float] = field(default_factory=list)  # that each whole stream lasted

    def stream(self, seed: int) -> None:
        body = {
            "model": "smollm2",
            "prompt": f"{seed} bottles on the wall, {seed} bottles.",
            "max_tokens": TOKENS,
            "ignore_eos": True,
            "stream": True,
        }
        while True:
            received, begun = 0, time.monotonic()
            try:
                with httpx.stream("POST", f"{self.url}/v1/completions", json=body, timeout=120) as answer:
                    if answer.status_code == 503:
                        raise httpx.ConnectError("not admitted")
                    assert answer.status_code == 200, answer.status_code
                    for line in answer.iter_lines():
                        if line == "data: [DONE]":
                            self.whole += 1
                            self.seconds.append(time.monotonic() - begun)
                            return
                        if line.startswith("data: "):
                            received += 1
                            assert "error" not in json.loads(line[6:]), line
                    self.cut.append(f"stream {seed} ended after {received} events")
                    return
            except (httpx.ConnectError, httpx.RemoteProtocolError, httpx.ReadError) as error:
                if received:
                    self.cut.append(f"stream {seed}: {error!r} after {received} events")
                    return
                self.refused += 1
                time.sleep(0.5)


def run_through(url: str, change: Callable[[], object]) -> Load:
    """Begin the streams, change something once they run, and wait for all of them."""
    load = Load(url)
    threads = [threading.Thread(target=load.stream, args=(number,)) for number in range(STREAMS)]
    for number, thread in enumerate(threads):
        thread.start()
        time.sleep(PACE)
        if number == STREAMS // 2:
            change()
    for thread in threads:
        thread.join(240)
    print(
        f"{load.whole} whole, {load.refused} refused, of {statistics.median(load.seconds or [0]):.0f} s (median)"
    )
    return load


@pytest.fixture
def two(cluster: target.Target, namespace: Kubectl) -> tuple[Kubectl, str]:
    """Two replicas behind a NodePort: the path of a client through kube-proxy."""
    assert cluster.local is not None
    small = {
        "requests": {"cpu": "100m", "memory": "1Gi"}
    }  # a spare replica must find room on a node of 2 cores
    service = {"type": "NodePort"}
    changes = {"spec": {"replicas": 2, "resources": small, "expose": {"service": service}}}
    namespace.apply(cluster.manifest(**changes))
    becomes_ready(namespace)
    port = namespace.get("service", "smollm2")["spec"]["ports"][0]["nodePort"]
    return namespace, f"http://{cluster.local.node_ip}:{port}"


def pods(kubectl: Kubectl) -> list[str]:
    found = kubectl.items("pods", "-l", "app.kubernetes.io/component=engine")
    return [pod["metadata"]["name"] for pod in found if "deletionTimestamp" not in pod["metadata"]]


def edit(kubectl: Kubectl, change: str) -> None:
    kubectl("patch", "llmsvc", "smollm2", "--type=merge", "-p", change)


def test_an_edit_cuts_no_stream(two: tuple[Kubectl, str]) -> None:
    kubectl, url = two
    load = run_through(url, lambda: edit(kubectl, '{"spec":{"engine":{"maxNumSeqs":64}}}'))
    assert (load.whole, load.cut, load.refused) == (STREAMS, [], 0)
    becomes_ready(kubectl)


@pytest.mark.full
def test_a_scale_down_cuts_no_stream(two: tuple[Kubectl, str]) -> None:
    kubectl, url = two
    load = run_through(url, lambda: edit(kubectl, '{"spec":{"replicas":1}}'))
    assert (load.whole, load.cut, load.refused) == (STREAMS, [], 0)


@pytest.mark.full
def test_a_deleted_pod_cuts_no_stream(two: tuple[Kubectl, str]) -> None:
    kubectl, url = two
    load = run_through(url, lambda: kubectl("delete", "pod", pods(kubectl)[0], "--wait=false"))
    assert (load.whole, load.cut, load.refused) == (STREAMS, [], 0)


@pytest.mark.full
def test_an_eviction_cuts_no_stream_and_a_second_one_is_refused(two: tuple[Kubectl, str]) -> None:
    kubectl, url = two
    answers = []

    def evict() -> None:
        for name in pods(kubectl):
            body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
            path = f"/api/v1/namespaces/{kubectl.namespace}/pods/{name}/eviction"
            try:
                kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(body))
                answers.append("evicted")
            except Exception as error:  # noqa: BLE001 (kubectl's refusal is what is looked for)
                answers.append("disruption budget" if "disruption budget" in str(error) else str(error))

    load = run_through(url, evict)
    assert answers == ["evicted", "disruption budget"]
    assert (load.whole, load.cut, load.refused) == (STREAMS, [], 0)


@pytest.mark.full
def test_a_killed_operator_cuts_no_stream_and_restarts_no_pod(
    cluster: target.Target, two: tuple[Kubectl, str]
) -> None:
    kubectl, url = two
    before = pods(kubectl)
    operator = replace(cluster.kubectl, namespace=target.OPERATOR_NAMESPACE)
    load = run_through(
        url, lambda: operator("delete", "pods", "--all", "--grace-period=0", "--force", "--wait=false")
    )
    assert (load.whole, load.cut, load.refused) == (STREAMS, [], 0)
    assert sorted(pods(kubectl)) == sorted(before)
    until(
        lambda: operator("get", "deploy", "-o", "jsonpath={.items[*].status.readyReplicas}"),
        lambda ready: "2" in ready,
        60,
    )
