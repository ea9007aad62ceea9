"""Ready means that the next request is answered: a completion in the first Ready second, start after start."""

from __future__ import annotations

import json
import time

import httpx
import pytest

from e2e import target
from e2e.kubectl import Kubectl, until

TOKENS = 4
BODY = {"model": "smollm2", "prompt": "One, two, three,", "max_tokens": TOKENS, "ignore_eos": True}
FIRST = 1.0  # second after Ready in which both requests begin


@pytest.mark.parametrize("starts", [3, pytest.param(20, marks=pytest.mark.full)])
def test_a_completion_in_the_first_ready_second_is_answered(
    cluster: target.Target, namespace: Kubectl, starts: int
) -> None:
    assert cluster.local is not None
    namespace.apply(cluster.manifest(spec={"expose": {"service": {"type": "NodePort"}}}))
    (service,) = until(lambda: namespace.items("services"), bool, 30)
    url = f"http://{cluster.local.node_ip}:{service['spec']['ports'][0]['nodePort']}"
    ended: set[str] = set()
    for start in range(starts):
        pod = until(lambda: new_pods(namespace, ended), bool, 30, every=0.1)[0]
        namespace("wait", "--for=condition=Ready", f"pod/{pod}", "--timeout=120s", timeout=130)
        ready = time.monotonic()
        opened = through_the_service(url, ready + FIRST) - ready
        directly = time.monotonic() - ready
        assert directly < FIRST, "the second request begins in the first second too"
        assert_answered(json.loads(post(namespace, pod)))
        print(
            f"start {start + 1}: asked {opened:.2f} s after Ready by the Service, {directly:.2f} s by the pod"
        )
        ended.add(pod)
        namespace("delete", "pod", pod, "--grace-period=1", "--wait=false")


def new_pods(kubectl: Kubectl, ended: set[str]) -> list[str]:
    found = kubectl.items("pods", "-l", "app.kubernetes.io/component=engine")
    return [pod["metadata"]["name"] for pod in found if pod["metadata"]["name"] not in ended]


def through_the_service(url: str, until_then: float) -> float:
    """When its connection was taken. That kube-proxy has yet to hear of the pod is no answer: it is asked again."""
    while True:
        asked = time.monotonic()
        try:
            answer = httpx.post(f"{url}/v1/completions", json=BODY, timeout=30)
        except httpx.ConnectError:
            assert asked < until_then, "no way to the pod in its first Ready second"
            time.sleep(0.02)
            continue
        assert answer.status_code == 200, answer.text
        assert_answered(answer.json())
        return asked


def post(kubectl: Kubectl, pod: str) -> str:
    """By the API server to the pod's own address."""
    path = f"/api/v1/namespaces/{kubectl.namespace}/pods/{pod}:8000/proxy/v1/completions"
    return kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(BODY))


def assert_answered(answer: dict[str, object]) -> None:
    assert answer["choices"][0]["text"]  # type: ignore[index]
    assert answer["usage"]["completion_tokens"] == TOKENS  # type: ignore[index]
