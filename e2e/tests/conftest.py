"""One real cluster for the whole tier, the chart installed once, a namespace a test."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

import pytest

from e2e import target
from e2e.kubectl import Kubectl

CLUSTER = f"test-e2e-{os.getpid()}"


@pytest.fixture(scope="session")
def cluster() -> Iterator[target.Target]:
    try:
        made = target.bring_up(CLUSTER)
        made.install_operator()
        yield made
    finally:
        target.take_down(CLUSTER)


@pytest.fixture
def namespace(cluster: target.Target, request: pytest.FixtureRequest) -> Iterator[Kubectl]:
    """kubectl in a fresh restricted namespace with the model's claim; the namespace goes with the test."""
    name = "t-" + re.sub(r"[^a-z0-9]+", "-", request.node.name.lower())[-40:].strip("-")
    kubectl = cluster.make_namespace(name)
    try:
        yield kubectl
    finally:
        cluster.leave_namespace(name)


@pytest.fixture(scope="session")
def served(cluster: target.Target) -> Iterator[Kubectl]:
    """A namespace with the example served, for tests that only read it."""
    kubectl = cluster.make_namespace("served")
    kubectl.apply(cluster.manifest())
    kubectl("wait", "--for=condition=Ready", "llmsvc/smollm2", "--timeout=120s", timeout=130)
    try:
        yield kubectl
    finally:
        cluster.leave_namespace("served")
