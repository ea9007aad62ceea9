"""What the chart renders."""

from __future__ import annotations

import json
from typing import Any

import pytest
from llmservice_operator.api import crd, defaults
from llmservice_operator.live import kinds

from tests.operator.chart import helm

NAME = "llm-llmservice-operator"


def pod(*options: str) -> dict[str, Any]:
    found: dict[str, Any] = helm.template(*options)["Deployment", NAME]["spec"]["template"]["spec"]
    return found


def rules(objects: dict[tuple[str, str], dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        rule
        for (kind, _), found in objects.items()
        if kind in {"ClusterRole", "Role"}
        for rule in found["rules"]
    ]


def test_chart_has_no_fault_that_helm_knows() -> None:
    assert "0 chart(s) failed" in helm.run("lint", "--strict", str(helm.CHART)).stdout


def test_it_reads_no_secret_but_a_certificate_of_its_own_serves_no_webhook_and_has_no_wildcard() -> None:
    objects = helm.template()
    for rule in rules(objects):
        if "secrets" in rule["resources"]:
            assert rule["resourceNames"] == [f"{NAME}-metrics-api"]
        assert "*" not in [*rule["resources"], *rule["verbs"], *rule["apiGroups"]]
        assert not {"escalate", "bind", "impersonate"} & set(rule["verbs"])
    assert not any("Webhook" in kind for kind, _ in objects)


def test_every_kind_that_is_written_may_be_and_by_no_further_verb() -> None:
    granted = {
        (group, resource): sorted(rule["verbs"])
        for rule in helm.template()["ClusterRole", NAME]["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    for kind in kinds.CHILDREN.values():
        assert granted[kind.group, kind.plural] == ["create", "delete", "get", "list", "patch", "watch"]


def test_leases_are_the_release_namespaces_only() -> None:
    objects = helm.template()
    assert not any("leases" in rule["resources"] for rule in objects["ClusterRole", NAME]["rules"])
    named = [rule for rule in objects["Role", NAME]["rules"] if rule["verbs"] != ["create"]]
    assert [rule["resourceNames"] for rule in named] == [[NAME]]
    assert f"--lease-name={NAME}" in pod()["containers"][0]["args"]


def test_two_replicas_may_lose_one_and_a_single_one_has_no_budget() -> None:
    objects = helm.template()
    assert objects["Deployment", NAME]["spec"]["replicas"] == 2
    assert objects["PodDisruptionBudget", NAME]["spec"]["maxUnavailable"] == 1
    assert ("PodDisruptionBudget", NAME) not in helm.template("--set=replicas=1")


def test_crd_is_the_generated_one_and_is_kept() -> None:
    found = helm.template()["CustomResourceDefinition", crd.FULL_NAME]
    assert found["spec"] == crd.generate()["spec"]
    assert found["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"


def test_crd_can_be_left_out_or_go_with_the_release() -> None:
    assert ("CustomResourceDefinition", crd.FULL_NAME) not in helm.template("--set=crds.install=false")
    loose = helm.template("--set=crds.keep=false")["CustomResourceDefinition", crd.FULL_NAME]
    assert "annotations" not in loose["metadata"]


def test_digest_goes_before_the_tag() -> None:
    digest = "sha256:" + "0" * 64
    image = pod("--set=image.tag=x", f"--set=image.digest={digest}")["containers"][0]["image"]
    assert image == f"ghcr.io/llmservice/llmservice-operator@{digest}"


def test_engine_defaults_are_what_the_operator_reads() -> None:
    options = (
        "--set=engine.tolerations[0].key=gpu",
        "--set=engine.imagePullSecrets[0].name=pull",
        "--set=engine.image=e:1",
        "--set=engine.storageClassName=fast",
        "--set=engine.hubEndpoint=http://mirror:8080",
    )
    container = pod(*options)["containers"][0]
    (given,) = (found["value"] for found in container["env"] if found["name"] == defaults.VARIABLE)
    (image,) = (found for found in container["args"] if found.startswith("--engine-image="))
    read = defaults.from_json(given, image.partition("=")[2])
    assert read == defaults.Defaults(
        image="e:1",
        image_pull_secrets=("pull",),
        tolerations=({"key": "gpu"},),
        storage_class_name="fast",
        hub_endpoint="http://mirror:8080",
    )


def test_operator_is_told_its_own_image_and_namespace_for_jobs_and_network_policies() -> None:
    container = pod("--set=image.repository=registry.example/operator", "--set=image.tag=x")["containers"][0]
    assert container["image"] == "registry.example/operator:x"
    assert "--operator-image=registry.example/operator:x" in container["args"]
    (where,) = (found for found in container["env"] if found["name"] == "POD_NAMESPACE")
    assert where["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.namespace"


def test_without_values_the_engine_is_the_one_of_the_charts_version() -> None:
    container = pod()["containers"][0]
    (given,) = (found["value"] for found in container["env"] if found["name"] == defaults.VARIABLE)
    assert json.loads(given) == {}
    assert f"--engine-image={defaults.ENGINE_IMAGE}" in container["args"]
    assert f"--operator-image={defaults.OPERATOR_IMAGE}" in container["args"]


@pytest.mark.parametrize(
    "option",
    [
        "--set=replica=3",
        "--set=replicas=-1",
        "--set=image.digest=latest",
        "--set=logLevel=loud",
        "--set=engine.img=a",
        "--set=engine.hubEndpoint=mirror:8080",
    ],
)
def test_value_that_is_none_is_refused(option: str) -> None:
    done = helm.run("template", "llm", str(helm.CHART), option, check=False)
    assert done.returncode != 0
    assert "values don't meet the specifications of the schema" in done.stderr


def test_long_release_name_still_makes_valid_names() -> None:
    for _, name in helm.template(release="r" * 53):
        assert len(name) <= 63
