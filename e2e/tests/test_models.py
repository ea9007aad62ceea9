"""A model from the hub's protocol, in real jobs on a real claim, served by a real engine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from e2e import model, target
from e2e.cluster.addresses import Link
from e2e.kubectl import CommandFailed, Kubectl, until
from e2e.tests.test_faults import becomes_ready, ready_says
from e2e.tests.test_first_path import ask
from tests.operator.fetch.hub_server import Hub, Repo

NAME = "HuggingFaceTB/SmolLM2-135M-Instruct"
TOKEN = "hf_MARKERmarkerMARKERmarker"


@dataclass(frozen=True)
class Origin:
    """A hub that pods of the cluster can reach."""

    hub: Hub

    def source(self, repo: str = NAME, **more: Any) -> dict[str, Any]:
        """A merge patch for the example."""
        given = {"hf": {"repo": repo, "endpoint": self.hub.url}, "pvc": None}
        return {"spec": {"model": {"source": given, "servedNames": None, **more}}}

    def served(self) -> int:
        """Bytes of the weights that were sent."""
        return self.hub.served["model.safetensors"]


@pytest.fixture(scope="module")
def origin(cluster: target.Target) -> Iterator[Origin]:
    assert cluster.local is not None, "this test serves a hub to the cluster that it made itself"
    assert cluster.local.node_ip is not None
    hub = Hub(Link.of(f"{cluster.local.node_ip}/30").host_address)
    folder = model.ensure()
    files = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    hub.repos[NAME] = Repo(files, lfs={"model.safetensors"})
    hub.repos["org/private"] = Repo(files, lfs={"model.safetensors"}, private=True)
    hub.repos["org/gated"] = Repo(files, lfs={"model.safetensors"}, gated=True)
    hub.tokens.add(TOKEN)
    yield Origin(hub)
    hub.close()


def logs(kubectl: Kubectl, pod: str) -> str:
    """Everything that a pod has printed; nothing where it has not begun."""
    try:
        return kubectl("logs", pod, "--all-containers", "--tail=-1")
    except CommandFailed:
        return ""


def test_a_model_from_the_hub_is_copied_once_served_and_found_again(
    cluster: target.Target, namespace: Kubectl, origin: Origin
) -> None:
    before = origin.served()
    namespace.apply(cluster.manifest(**origin.source()))
    becomes_ready(namespace)
    size = (model.ensure() / "model.safetensors").stat().st_size
    assert origin.served() - before == size
    with namespace.port_forward("service/smollm2", 0) as url:
        answer = ask(url, model=NAME).json()
    assert "Paris" in answer["choices"][0]["message"]["content"]
    status = namespace.get("llmsvc", "smollm2")["status"]
    assert status["model"]["weightBytes"] == size
    assert status["memory"]["verdict"] == "Fits"
    claim = status["cache"]["claimName"]
    assert status["cache"]["bytesDone"] == status["cache"]["bytesTotal"] > size

    second = cluster.manifest(**origin.source())
    second["metadata"]["name"] = "second"
    namespace.apply(second)
    namespace("wait", "--for=condition=Ready", "llmsvc/second", "--timeout=90s", timeout=100)
    assert namespace.get("llmsvc", "second")["status"]["cache"]["claimName"] == claim

    namespace("delete", "llmsvc", "smollm2", "second", "--timeout=60s")
    namespace.apply(cluster.manifest(**origin.source()))
    becomes_ready(namespace)
    assert origin.served() - before == size, "the copy that was kept is used, no byte is fetched again"


def test_the_token_is_needed_mounted_and_never_told(
    cluster: target.Target, namespace: Kubectl, origin: Origin
) -> None:
    namespace.apply(cluster.manifest(**origin.source("org/private")))
    ready_says(namespace, "TokenMissing", "org/private", "tokenSecretRef")
    with_token = origin.source("org/private", tokenSecretRef={"name": "hub-token"})
    namespace.apply(cluster.manifest(**with_token))
    ready_says(namespace, "SecretNotFound", "hub-token")
    namespace("create", "secret", "generic", "hub-token", f"--from-literal=token={TOKEN}")
    becomes_ready(namespace)
    kinds = "llmsvc,pods,jobs,events,deployments,controllerrevisions,pvc"
    operator = replace(cluster.kubectl, namespace=target.OPERATOR_NAMESPACE)
    told = [namespace("get", kinds, "-o", "json")]
    told += [logs(operator, pod) for pod in operator("get", "pods", "-o", "name").split()]
    told += [logs(namespace, pod) for pod in namespace("get", "pods", "-o", "name").split()]
    assert any("SecretNotFound" in text for text in told), "the search would find something"
    assert all(TOKEN not in text for text in told)


def test_a_gated_and_an_unknown_repository_say_so(
    cluster: target.Target, namespace: Kubectl, origin: Origin
) -> None:
    namespace("create", "secret", "generic", "hub-token", f"--from-literal=token={TOKEN}")
    gated = origin.source("org/gated", tokenSecretRef={"name": "hub-token"})
    namespace.apply(cluster.manifest(**gated))
    ready_says(namespace, "ModelGated", "org/gated")
    namespace.apply(cluster.manifest(**origin.source("org/nowhere", tokenSecretRef={"name": "hub-token"})))
    ready_says(namespace, "ModelNotFound", "org/nowhere")
    assert namespace.condition("smollm2", "Stalled")["status"] == "True"


def test_a_storage_class_that_does_not_exist_is_named_and_nothing_hangs_on_it(
    cluster: target.Target, namespace: Kubectl, origin: Origin
) -> None:
    wrong = origin.source()
    wrong["spec"]["cache"] = {"storageClassName": "nope", "reclaimPolicy": "Delete"}
    namespace.apply(cluster.manifest(**wrong))
    ready_says(namespace, "StorageClassNotFound", "nope")
    claim = namespace.get("llmsvc", "smollm2")["status"]["cache"]["claimName"]
    wrong["spec"]["cache"] = {"storageClassName": "shared"}
    namespace.apply(cluster.manifest(**wrong))
    until(
        lambda: {
            one["metadata"]["name"]: one["spec"].get("storageClassName") for one in namespace.items("pvc")
        },
        lambda classes: classes.get(claim) == "shared",  # it is made anew: for a moment there is none
        30,
    )
    namespace("delete", "llmsvc", "smollm2", "--timeout=60s")


@pytest.mark.full
def test_what_does_not_fit_is_refused_before_a_pod_is_made(
    cluster: target.Target, namespace: Kubectl, origin: Origin
) -> None:
    small = origin.source()
    small["spec"]["accelerator"] = {"count": 0, "fitPolicy": "Enforce"}
    small["spec"]["resources"] = {"limits": {"memory": "950Mi"}, "requests": {"memory": "200Mi"}}
    namespace.apply(cluster.manifest(**small))
    message = ready_says(namespace, "InsufficientMemory", "max-model-len")
    assert message == namespace.condition("smollm2", "MemoryFits")["message"]
    assert not namespace.items("pods", "-l", "app.kubernetes.io/component=engine")
