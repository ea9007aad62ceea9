"""A real API server of its own, with the chart installed."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator

import pytest
import yaml

from e2e.cluster import launcher
from e2e.cluster.launcher import Cluster
from tests.operator.chart import helm

Kubectl = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="package")
def cluster() -> Iterator[Cluster]:
    name = f"test-chart-{os.getpid()}"
    yield launcher.up(name, "control-plane")
    launcher.down(name)


@pytest.fixture(scope="package")
def kubectl(cluster: Cluster) -> Kubectl:
    def run(*arguments: str, given: object = None, check: bool = True) -> subprocess.CompletedProcess[str]:
        command = [str(cluster.kubectl), f"--kubeconfig={cluster.kubeconfig}", *arguments]
        text = None if given is None else yaml.safe_dump(given)
        done = subprocess.run(command, input=text, text=True, capture_output=True, check=False)
        if check and done.returncode:
            raise AssertionError(f"kubectl {' '.join(arguments)}: {done.stderr}")
        return done

    return run


@pytest.fixture(scope="package")
def installed(cluster: Cluster, kubectl: Kubectl) -> Kubectl:
    """kubectl, with the chart installed in a namespace that admits restricted pods only."""
    label = {"pod-security.kubernetes.io/enforce": "restricted"}
    namespace = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": helm.NAMESPACE, "labels": label},
    }
    kubectl("apply", "-f", "-", given=namespace)
    chart = (str(helm.CHART), f"--namespace={helm.NAMESPACE}")
    helm.run("install", "llm", *chart, kubeconfig=cluster.kubeconfig)
    kubectl("wait", "--for=condition=Established", "crd/llmservices.serving.llmservice.dev", "--timeout=30s")
    return kubectl
