"""Why a service is not ready, on real pods: each cause with its figures or names, within 30 s, and gone with it."""

from __future__ import annotations

from typing import Any

import pytest

from e2e import target
from e2e.cluster import launcher
from e2e.kubectl import Kubectl, until
from e2e.tests.test_faults import becomes_ready, ready_says

GPU = {"spec": {"accelerator": {"count": 2}, "engine": {"tensorParallelSize": 1}}}


def engine_env(name: str, reference: dict[str, Any]) -> dict[str, Any]:
    return {"spec": {"engine": {"env": [{"name": name, "valueFrom": reference}]}}}


def test_no_free_accelerator_is_said_in_the_schedulers_figures_and_heals(
    cluster: target.Target, namespace: Kubectl
) -> None:
    namespace.apply(cluster.manifest(**GPU))
    ready_says(namespace, "Unschedulable", "0/1 nodes are available", "nvidia.com/gpu")
    assert cluster.local is not None, "fake devices are given to the node that was made here"
    launcher.set_fake_gpus(cluster.local, 2)
    try:
        becomes_ready(namespace)
        assert namespace.condition("smollm2", "Reconciling") == {}
        assert namespace.get("llmsvc", "smollm2")["status"]["rollout"]["strategy"] == "Recycle"
        namespace("delete", "llmsvc", "smollm2", "--timeout=60s")
    finally:
        launcher.set_fake_gpus(cluster.local, 0)


@pytest.mark.full
def test_an_image_that_cannot_be_pulled_is_named(cluster: target.Target, namespace: Kubectl) -> None:
    image = "registry.invalid/engine:none"
    namespace.apply(cluster.manifest(spec={"engine": {"image": image}}))
    ready_says(namespace, "ImagePullBackOff", image)
    namespace.apply(cluster.manifest())
    becomes_ready(namespace)


def test_a_secret_that_does_not_exist_is_named_and_heals(cluster: target.Target, namespace: Kubectl) -> None:
    reference = {"secretKeyRef": {"name": "keys", "key": "key"}}
    namespace.apply(cluster.manifest(**engine_env("KEY", reference)))
    ready_says(namespace, "SecretNotFound", "keys")
    namespace("create", "secret", "generic", "keys", "--from-literal=key=value")
    becomes_ready(namespace)


@pytest.mark.full
def test_a_chat_template_that_does_not_exist_is_named_and_heals(
    cluster: target.Target, namespace: Kubectl
) -> None:
    reference = {"configMapKeyRef": {"name": "templates", "key": "chat.jinja"}}
    namespace.apply(cluster.manifest(spec={"engine": {"chatTemplate": reference}}))
    ready_says(namespace, "ConfigMapNotFound", "templates")
    namespace("create", "configmap", "templates", "--from-literal=chat.jinja={{ messages[0].content }}")
    becomes_ready(namespace)


def test_out_of_memory_is_told_with_the_limit(cluster: target.Target, namespace: Kubectl) -> None:
    limits = {"resources": {"limits": {"memory": "96Mi"}, "requests": {"memory": "32Mi"}}}
    namespace.apply(cluster.manifest(spec=limits))
    ready_says(namespace, "OOMKilled", "96Mi")


def test_an_edit_whose_pods_fail_is_told_while_the_old_ones_serve(
    cluster: target.Target, namespace: Kubectl
) -> None:
    namespace.apply(cluster.manifest())
    becomes_ready(namespace)
    image = "registry.invalid/engine:none"
    namespace.apply(cluster.manifest(spec={"engine": {"image": image}}))
    message = ready_says(namespace, "ImagePullBackOff", image)
    assert "older replicas still serve" in message
    assert namespace.condition("smollm2", "Available")["status"] == "True"


def test_what_happened_is_in_the_objects_events(cluster: target.Target, namespace: Kubectl) -> None:
    namespace.apply(cluster.manifest(spec={"engine": {"image": "registry.invalid/engine:none"}}))
    ready_says(namespace, "ImagePullBackOff")
    namespace.apply(cluster.manifest())
    becomes_ready(namespace)
    seen = until(
        lambda: {
            (event["type"], event["reason"])
            for event in namespace.items("events", "--field-selector=involvedObject.kind=LLMService")
        },
        lambda found: ("Normal", "ReplicasAvailable") in found,
        15,
    )
    assert ("Warning", "ImagePullBackOff") in seen
    described = namespace("describe", "llmsvc", "smollm2")
    assert "registry.invalid/engine:none" in described
