"""Specs that are read, and specs that are refused with the field's path."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from llmservice_operator.api import engine, spec
from llmservice_planner import settings

SMALLEST: dict[str, Any] = {
    "metadata": {"name": "llama", "namespace": "team", "uid": "u-1", "generation": 3},
    "spec": {"model": {"source": {"pvc": {"claimName": "models"}}}},
}


def with_spec(**fields: Any) -> dict[str, Any]:
    body = copy.deepcopy(SMALLEST)
    body["spec"] |= fields
    return body


def test_smallest_object_gets_the_documented_defaults() -> None:
    wanted = spec.parse(SMALLEST)
    assert (wanted.name, wanted.namespace, wanted.uid, wanted.generation) == ("llama", "team", "u-1", 3)
    assert wanted.served_names == ("llama",)
    assert wanted.replicas is None
    assert wanted.service_name == "llama"
    assert wanted.spec.accelerator.count == 1
    assert wanted.spec.accelerator.resource_name == "nvidia.com/gpu"
    assert wanted.spec.expose.service.port == 8000
    assert wanted.spec.rollout.drain_timeout == "120s"


def test_every_resource_setting_of_the_planner_is_a_field_of_the_engine() -> None:
    assert set(settings.resource_fields()) <= set(engine.Engine.model_fields)


def test_settings_that_are_not_given_stay_the_engines() -> None:
    assert spec.parse(with_spec(engine={"maxModelLen": 4096})).spec.engine.settings() == {
        "max_model_len": 4096
    }


@pytest.mark.parametrize("amount", [4, "4", "500m", "32Gi", "1e3", "0.5"])
def test_quantities_are_taken_as_numbers_and_as_strings(amount: int | str) -> None:
    wanted = spec.parse(with_spec(resources={"requests": {"cpu": amount}}))
    assert wanted.spec.resources.requests["cpu"] == amount


@pytest.mark.parametrize("one", [1, "1", "1000m"])
def test_equal_extended_resources_in_any_spelling_are_taken(one: int | str) -> None:
    spec.parse(with_spec(resources={"requests": {"rdma/ib": one}, "limits": {"rdma/ib": "1"}}))


def test_suspended_means_no_replicas() -> None:
    assert spec.parse(with_spec(suspend=True, replicas=3)).replicas == 0


def test_arguments_for_another_image_are_left_to_it() -> None:
    given = {"image": "vllm/vllm-openai:v0.5.0", "args": ["--enforce-eager", "--lora-modules", '{"a": 1}']}
    assert spec.parse(with_spec(engine=given)).spec.engine.args[2] == '{"a": 1}'


def test_arguments_with_variables_are_left_to_the_pod() -> None:
    given = {"args": ["--max-model-len", "$(LENGTH)"], "env": [{"name": "LENGTH", "value": "4096"}]}
    spec.parse(with_spec(engine=given))


PVC = {"claimName": "models"}
HUB: dict[str, Any] = {"model": {"source": {"hf": {"repo": "org/name"}}}}
TEMPLATE_ENGINE = "spec.template.spec.containers[engine]"
REFUSED: list[tuple[dict[str, Any], str, str]] = [
    ({"model": {"source": {}}}, "spec.model.source", "exactly one source"),
    ({"model": {"source": {"pvc": PVC, "hf": {"repo": "a/b"}}}}, "spec.model.source", "hf and pvc"),
    ({"model": {"source": {"git": {"repo": "a/b"}}}}, "spec.model.source.git", "not a field"),
    ({"model": {"source": {"hf": {"repo": "../etc"}}}}, "spec.model.source.hf.repo", "match"),
    (
        {"model": {"source": {"hf": {"repo": "a/b", "endpoint": "hub"}}}},
        "spec.model.source.hf.endpoint",
        "match",
    ),
    ({"model": {"source": {"s3": {"uri": "https://bucket/x"}}}}, "spec.model.source.s3.uri", "match"),
    (
        {"model": {"source": {"pvc": PVC}, "tokenSecretRef": {"name": "t"}}},
        "spec.model.tokenSecretRef",
        "hub",
    ),
    ({"cache": {"size": "1Gi"}}, "spec.cache", "on a claim of yours"),
    (HUB | {"cache": {"mode": "Existing"}}, "spec.cache.claimName", "is needed"),
    (HUB | {"cache": {"claimName": "mine"}}, "spec.cache.claimName", "only cache.mode Existing"),
    (HUB | {"cache": {"mode": "None", "size": "1Gi"}}, "spec.cache.size", "Managed and Ephemeral"),
    (HUB | {"cache": {"mode": "Ephemeral", "prefetch": True}}, "spec.cache.prefetch", "Managed and Existing"),
    ({"autoscaling": {"maxReplicas": 3}, "replicas": 2}, "spec.replicas", "autoscaler's"),
    ({"autoscaling": {"minReplicas": 4, "maxReplicas": 3}}, "spec.autoscaling.minReplicas", "4 is more"),
    ({"autoscaling": {"minReplicas": 0, "maxReplicas": 3}}, "spec.autoscaling.minReplicas", "External"),
    ({"autoscaling": {"maxReplicas": 3, "backend": "KEDA"}}, "spec.autoscaling.keda", "is needed"),
    (
        {"rollout": {"strategy": "Surge", "maxSurge": 0, "maxUnavailable": "0%"}},
        "spec.rollout.maxUnavailable",
        "0",
    ),
    ({"rollout": {"strategy": "Surge", "maxSurge": "x%"}}, "spec.rollout.maxSurge", "25%"),
    ({"rollout": {"strategy": "Surge", "maxSurge": -1}}, "spec.rollout.maxSurge", "at least 0"),
    ({"rollout": {"maxSurge": 1}}, "spec.rollout", "strategy Surge"),
    ({"model": {}}, "spec.model.source", "is needed"),
    ({"model": {"source": {"pvc": PVC | {"path": "/abs"}}}}, "spec.model.source.pvc.path", "match"),
    ({"model": {"source": {"pvc": PVC | {"path": "a/../../b"}}}}, "spec.model.source.pvc.path", "'..'"),
    ({"model": {"source": {"pvc": PVC}, "servedNames": ["--port"]}}, "spec.model.servedNames[0]", "match"),
    ({"accelerator": {"count": -1}}, "spec.accelerator.count", "-1"),
    ({"accelerator": {"count": 65}}, "spec.accelerator.count", "65"),
    ({"accelerator": {"resourceName": "gpu"}}, "spec.accelerator.resourceName", "match"),
    ({"engine": {"port": 9}}, "spec.engine.port", "not a field"),
    ({"engine": {"maxModelLen": 0}}, "spec.engine.maxModelLen", "greater than or equal to 1"),
    ({"engine": {"dtype": "int3"}}, "spec.engine.dtype", "int3"),
    (
        {"engine": {"args": ["--seed", "1", "--port=9"]}},
        "spec.engine.args[2]",
        "--port is set by the operator",
    ),
    ({"engine": {"args": ["--model", "x"]}}, "spec.engine.args[0]", "spec.model.source"),
    ({"engine": {"args": ["--served_model_name=x"]}}, "spec.engine.args[0]", "spec.model.servedNames"),
    ({"engine": {"args": ["--drain-timeout=5"]}}, "spec.engine.args[0]", "spec.rollout.drainTimeout"),
    ({"engine": {"image": "other:1", "args": ["--host", "::"]}}, "spec.engine.args[0]", "--host"),
    ({"engine": {"args": ["--max-num-batched-token", "9"]}}, "spec.engine.args", "--max-num-batched-tokens"),
    ({"engine": {"args": ["--max-model-len", "many"]}}, "spec.engine.args", "many"),
    ({"engine": {"args": ["a-second-model"]}}, "spec.engine.args", "given twice"),
    ({"resources": {"requests": {"cpu": "many"}}}, "spec.resources.requests.cpu", "not a quantity"),
    (
        {"resources": {"limits": {"nvidia.com/gpu": 1}}},
        "spec.resources.limits[nvidia.com/gpu]",
        "accelerator.count",
    ),
    (
        {"resources": {"requests": {"rdma/ib": 1}, "limits": {"rdma/ib": "2"}}},
        "spec.resources.limits[rdma/ib]",
        "2 differs from the request 1",
    ),
    (
        {"resources": {"requests": {"cpu": 4}, "limits": {"cpu": "2"}}},
        "spec.resources.requests[cpu]",
        "more than",
    ),
    ({"replicas": -1}, "spec.replicas", "-1"),
    ({"startup": {"deadline": "soon"}}, "spec.startup.deadline", "match"),
    ({"startup": {"deadline": "25h"}}, "spec.startup.deadline", "at most 24h"),
    ({"startup": {"deadline": "0s"}}, "spec.startup.deadline", "at least 1s"),
    ({"expose": {"service": {"name": "Upper"}}}, "spec.expose.service.name", "match"),
    (
        {"expose": {"service": {"labels": {"app.kubernetes.io/name": "x"}}}},
        "spec.expose.service.labels[app.kubernetes.io/name]",
        "operator",
    ),
    ({"template": {"containers": []}}, "spec.template.containers", "not a field"),
    (
        {"template": {"spec": {"containers": [{"name": "engine", "args": []}]}}},
        f"{TEMPLATE_ENGINE}.args",
        "engine.args",
    ),
    (
        {
            "template": {
                "spec": {
                    "containers": [{"name": "engine", "ports": [{"containerPort": 8000, "name": "web"}]}]
                }
            }
        },
        f"{TEMPLATE_ENGINE}.ports",
        "8000",
    ),
    (
        {
            "template": {
                "spec": {"containers": [{"name": "proxy", "ports": [{"containerPort": 80, "name": "http"}]}]}
            }
        },
        "spec.template.spec.containers[proxy].ports",
        "http",
    ),
    ({"template": {"spec": {"containers": [{"image": "x"}]}}}, "spec.template.spec.containers", "name"),
    ({"template": {"spec": {"volumes": {"a": 1}}}}, "spec.template.spec.volumes", "list"),
    (
        {"template": {"spec": {"containers": [{"name": "a", "ports": 3}]}}},
        "spec.template.spec.containers[a].ports",
        "",
    ),
    (
        {"template": {"metadata": {"labels": {"app.kubernetes.io/instance": "x"}}}},
        "spec.template.metadata.labels[app.kubernetes.io/instance]",
        "operator",
    ),
    (
        {"template": {"spec": {"terminationGracePeriodSeconds": 30}}},
        "spec.template.spec.terminationGracePeriodSeconds",
        "needs 140 s",
    ),
    ({"gpu": 1}, "spec.gpu", "not a field"),
]


@pytest.mark.parametrize(("fields", "path", "words"), REFUSED, ids=[path for _, path, _ in REFUSED])
def test_refusal_names_the_field_and_says_why(fields: dict[str, Any], path: str, words: str) -> None:
    with pytest.raises(spec.InvalidSpec) as refused:
        spec.parse(with_spec(**fields))
    assert refused.value.path == path
    assert words in refused.value.message


def test_missing_spec_is_refused_not_a_crash() -> None:
    with pytest.raises(spec.InvalidSpec):
        spec.parse({"metadata": SMALLEST["metadata"]})
