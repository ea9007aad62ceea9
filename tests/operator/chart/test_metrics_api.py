"""The metrics server as the chart makes it, rendered and on a real API server."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from llmservice_operator.api import contract
from llmservice_operator.metrics_api import registration, wire

from e2e.cluster.launcher import Cluster
from tests.operator.chart import helm
from tests.operator.chart.conftest import Kubectl

OPERATOR = "llm-llmservice-operator"
NAME = f"{OPERATOR}-metrics-api"
ACCOUNT = f"system:serviceaccount:{helm.NAMESPACE}:{NAME}"
HPA = "system:serviceaccount:kube-system:horizontal-pod-autoscaler"

Objects = dict[tuple[str, str], dict[str, Any]]


@pytest.fixture(scope="module")
def objects() -> Objects:
    return helm.template()


def selects(selector: dict[str, str], labels: dict[str, str]) -> bool:
    return selector.items() <= labels.items()


def test_it_is_on_by_default_with_two_replicas_of_which_one_may_go(objects: Objects) -> None:
    assert objects["Deployment", NAME]["spec"]["replicas"] == 2
    assert objects["PodDisruptionBudget", NAME]["spec"]["maxUnavailable"] == 1
    assert ("PodDisruptionBudget", NAME) not in helm.template("--set=metricsApi.replicas=1")


def test_switched_off_nothing_of_it_is_left() -> None:
    left = [name for name in helm.template("--set=metricsApi.enabled=false") if "metrics" in str(name)]
    assert left == []


def test_its_pods_are_nobody_elses_and_the_operators_are_not_its(objects: Objects) -> None:
    """The operator's Deployment and budget select by labels, too."""
    for mine, other in ((NAME, OPERATOR), (OPERATOR, NAME)):
        labels = objects["Deployment", mine]["spec"]["template"]["metadata"]["labels"]
        for kind in ("Deployment", "PodDisruptionBudget"):
            assert selects(objects[kind, mine]["spec"]["selector"]["matchLabels"], labels)
            assert not selects(objects[kind, other]["spec"]["selector"]["matchLabels"], labels)
    labels = objects["Deployment", NAME]["spec"]["template"]["metadata"]["labels"]
    assert selects(objects["Service", NAME]["spec"]["selector"], labels)


def test_its_pods_are_as_hardened_as_the_operators(objects: Objects) -> None:
    mine, operators = (objects["Deployment", name]["spec"]["template"]["spec"] for name in (NAME, OPERATOR))
    assert mine["securityContext"] == operators["securityContext"]
    assert mine["containers"][0]["securityContext"] == operators["containers"][0]["securityContext"]
    assert mine["containers"][0]["image"] == operators["containers"][0]["image"]
    assert mine["volumes"][0]["emptyDir"]["medium"] == "Memory"
    assert mine["serviceAccountName"] == NAME != operators["serviceAccountName"]


def test_it_is_told_its_names_and_ports(objects: Objects) -> None:
    args = objects["Deployment", NAME]["spec"]["template"]["spec"]["containers"][0]["args"]
    assert args[0] == "metrics-api"
    assert f"--name={NAME}" in args
    for kind in ("Service", "Secret", "ClusterRole", "Deployment"):
        assert (kind, NAME) in objects, "one name for all that it looks for"
    (port,) = objects["Service", NAME]["spec"]["ports"]
    assert (port["port"], port["targetPort"]) == (registration.PORT, "api")
    elsewhere = helm.template("--set=metricsApi.port=10250")["Deployment", NAME]["spec"]["template"]["spec"]
    assert elsewhere["containers"][0]["ports"][0] == {"name": "api", "containerPort": 10250}


def test_the_only_secret_right_is_get_and_update_of_its_own_one(objects: Objects) -> None:
    rules = [
        rule
        for (kind, _), found in objects.items()
        if kind in {"ClusterRole", "Role"}
        for rule in found["rules"]
        if "secrets" in rule["resources"]
    ]
    assert rules == [
        {"apiGroups": [""], "resources": ["secrets"], "resourceNames": [NAME], "verbs": ["get", "update"]}
    ]
    assert rules[0] in objects["Role", NAME]["rules"]


def test_the_chart_registers_nothing_and_names_no_data_of_the_secret(objects: Objects) -> None:
    assert not any(kind == "APIService" for kind, _ in objects)
    assert not {"data", "stringData", "immutable"} & objects["Secret", NAME].keys()


def test_the_autoscalers_controller_may_read_each_metric(objects: Objects) -> None:
    (rule,) = objects["ClusterRole", f"{NAME}-reader"]["rules"]
    assert rule["resources"] == [f"{wire.RESOURCE}/{name}" for name in contract.SCALING_METRICS.values()]
    (subject,) = objects["ClusterRoleBinding", f"{NAME}-reader"]["subjects"]
    assert (subject["namespace"], subject["name"]) == ("kube-system", "horizontal-pod-autoscaler")


def test_apiservices_may_be_changed_by_name_only(objects: Objects) -> None:
    rules = [
        rule
        for rule in objects["ClusterRole", NAME]["rules"]
        if rule["apiGroups"] == ["apiregistration.k8s.io"] and rule["verbs"] != ["create"]
    ]
    (rule,) = rules
    assert sorted(rule["resourceNames"]) == sorted(f"{version}.{wire.GROUP}" for version in wire.VERSIONS)


@pytest.mark.parametrize("release", ["r" * 53, "llmservice-operator"])
def test_names_are_valid_and_apart_whatever_the_release_is_called(release: str) -> None:
    rendered = helm.template(release=release)
    assert all(len(name) <= 63 for _, name in rendered)
    assert len([name for kind, name in rendered if kind == "Deployment"]) == 2


@pytest.mark.parametrize(
    "option",
    [
        "--set=metricsApi.replicas=0",
        "--set=metricsApi.port=8080",
        "--set=metricsApi.port=443",
        "--set=metricsApi.enable=true",
    ],
)
def test_value_that_cannot_work_is_refused(option: str) -> None:
    done = helm.run("template", "llm", str(helm.CHART), option, check=False)
    assert "values don't meet the specifications of the schema" in done.stderr


# --- on a real API server -------------------------------------------------------------------------------------
ALLOWED = [
    ("list", "pods", "default"),
    ("watch", "pods", "default"),
    ("get", f"secrets/{NAME}", helm.NAMESPACE),
    ("update", f"secrets/{NAME}", helm.NAMESPACE),
    ("get", f"deployments.apps/{NAME}", helm.NAMESPACE),
    ("watch", f"namespaces/{helm.NAMESPACE}", ""),
    ("get", "configmaps/extension-apiserver-authentication", "kube-system"),
    ("create", "tokenreviews.authentication.k8s.io", ""),
    ("create", "subjectaccessreviews.authorization.k8s.io", ""),
    ("create", "apiservices.apiregistration.k8s.io", ""),
    *(
        (verb, f"apiservices.apiregistration.k8s.io/{version}.{wire.GROUP}", "")
        for verb in ("get", "patch", "delete")
        for version in wire.VERSIONS
    ),
]
FORBIDDEN = [
    ("list", "secrets", helm.NAMESPACE),
    ("watch", "secrets", helm.NAMESPACE),
    ("create", "secrets", helm.NAMESPACE),
    ("get", "secrets/another", helm.NAMESPACE),
    ("get", f"secrets/{NAME}", "default"),
    ("get", "configmaps/another", "kube-system"),
    ("patch", "apiservices.apiregistration.k8s.io/v1.apps", ""),
    ("delete", "apiservices.apiregistration.k8s.io/v1beta1.metrics.k8s.io", ""),
    ("patch", "llmservices.serving.llmservice.dev", "default"),
    ("list", "llmservices.serving.llmservice.dev", "default"),
    ("create", "pods", "default"),
    ("delete", f"deployments.apps/{NAME}", helm.NAMESPACE),
    ("list", "namespaces", ""),
]


@pytest.mark.parametrize(
    ("verb", "what", "namespace", "answer"),
    [(*asked, "yes") for asked in ALLOWED] + [(*asked, "no") for asked in FORBIDDEN],
)
def test_the_server_may_do_what_it_does_and_no_more(
    installed: Kubectl, verb: str, what: str, namespace: str, answer: str
) -> None:
    where = [f"--namespace={namespace}"] if namespace else []
    done = installed("auth", "can-i", verb, what, *where, f"--as={ACCOUNT}", check=False)
    assert done.stdout.strip() == answer, done.stderr


@pytest.mark.parametrize("metric", wire.METRICS)
def test_the_autoscalers_controller_has_the_right_that_it_is_asked_for(
    installed: Kubectl, metric: str
) -> None:
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": HPA,
            "resourceAttributes": {
                "namespace": "default",
                "verb": "get",
                "group": wire.GROUP,
                "version": "v1beta2",
                "resource": wire.RESOURCE,
                "subresource": metric,
                "name": "chat",
            },
        },
    }
    done = installed("create", "-f", "-", "-o", "json", given=review)
    assert json.loads(done.stdout)["status"]["allowed"]


def test_an_upgrade_leaves_the_certificate_as_it_is(cluster: Cluster, installed: Kubectl) -> None:
    where = f"--namespace={helm.NAMESPACE}"
    data = {"tls.crt": base64.b64encode(b"a certificate").decode()}
    secret = json.loads(installed("get", "secret", NAME, where, "-o", "json").stdout)
    installed("replace", "-f", "-", given=secret | {"data": data})
    chart = (str(helm.CHART), where)
    for more in (("--set=logLevel=debug",), ("--set=metricsApi.replicas=3",), ()):
        helm.run("upgrade", "llm", *chart, *more, kubeconfig=cluster.kubeconfig)
        kept = json.loads(installed("get", "secret", NAME, where, "-o", "json").stdout)
        assert kept["data"] == data
