"""The chart on a real API server: rights, pod security, the schema's rules, and children as the server keeps them."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from llmservice_operator.api import compare, spec
from llmservice_operator.api.seen import Seen
from llmservice_operator.live import kinds

from e2e.cluster.launcher import Cluster
from tests.operator.api.test_spec import REFUSED
from tests.operator.chart import helm
from tests.operator.chart.conftest import Kubectl
from tests.operator.desired import world

GOLDEN = helm.ROOT / "tests" / "golden"
ACCOUNT = f"system:serviceaccount:{helm.NAMESPACE}:llm-llmservice-operator"
ENGINE_ARGS = {
    "--max-num-batched-token",
    "--max-model-len",
    "a-second-model",
}  # judged by the planner, not by CEL


def service(fields: dict[str, Any]) -> dict[str, Any]:
    given = {"model": {"source": {"pvc": {"claimName": "models"}}}} | fields
    return {
        "apiVersion": "serving.llmservice.dev/v1alpha1",
        "kind": "LLMService",
        "metadata": {"name": "tried", "namespace": "default"},
        "spec": given,
    }


def is_for_the_schema(fields: dict[str, Any]) -> bool:
    """Everything but what only the operator can judge: the pod template, flags' values, requests over limits."""
    if "spec" in fields.get("template", {}) or "metadata" in fields.get("template", {}):
        return False
    return not ENGINE_ARGS & set(fields.get("engine", {}).get("args", ())) and fields.get("resources") != {
        "requests": {"cpu": 4},
        "limits": {"cpu": "2"},
    }


@pytest.mark.parametrize(
    ("fields", "path"),
    [(fields, path) for fields, path, _ in REFUSED if is_for_the_schema(fields)],
    ids=[path for fields, path, _ in REFUSED if is_for_the_schema(fields)],
)
def test_what_the_operator_would_refuse_is_refused_at_apply_with_its_path(
    installed: Kubectl, fields: dict[str, Any], path: str
) -> None:
    done = installed("apply", "--dry-run=server", "-f", "-", given=service(fields), check=False)
    assert done.returncode != 0
    field = path.partition("[")[0]
    assert field in done.stderr


@pytest.mark.parametrize("name", ["smollm2-cpu", "llama3-8b-gpu"])
def test_example_is_taken_as_a_user_writes_it(installed: Kubectl, name: str) -> None:
    installed("apply", "--dry-run=server", "-f", str(helm.ROOT / "examples" / f"{name}.yaml"))


@pytest.mark.parametrize("amount", [4, "4", "500m", "32Gi"])
def test_quantity_is_kept_as_it_was_written(installed: Kubectl, amount: int | str) -> None:
    given = service({"resources": {"limits": {"cpu": amount}}})
    done = installed("apply", "--dry-run=server", "-o", "json", "-f", "-", given=given)
    assert json.loads(done.stdout)["spec"]["resources"]["limits"]["cpu"] == amount


@pytest.mark.parametrize("case", sorted(GOLDEN.glob("*.in.yaml")), ids=lambda path: path.name)
def test_children_are_kept_by_the_server_as_they_were_rendered(installed: Kubectl, case: Path) -> None:
    body, *claims = yaml.safe_load_all(case.read_text())
    namespace = body["metadata"]["namespace"]
    installed("create", "namespace", namespace, check=False)
    wanted = spec.parse(body)
    seen = Seen(claims={claim["metadata"]["name"]: claim for claim in claims})
    for child in world.render_all(wanted, seen).children:
        apply = ("apply", "--server-side", "--field-manager=llmservice-operator", "-o", "json", "-f", "-")
        live = json.loads(installed(*apply, given=child).stdout)
        assert compare.differs(child, live) is None


WRITTEN = ("get", "list", "watch", "create", "patch", "delete")
ALLOWED = [
    ("patch", "llmservices.serving.llmservice.dev/status"),
    ("watch", "llmservices.serving.llmservice.dev"),
    *(
        (verb, f"{kind.plural}.{kind.group}" if kind.group else kind.plural)
        for kind in kinds.CHILDREN.values()
        for verb in WRITTEN
        if not kind.optional  # whose rights cannot be asked by name where they are not served
    ),
    *((verb, "events") for verb in ("get", "list", "create", "patch")),
    ("list", "nodes"),
]
FORBIDDEN = [
    ("get", "secrets"),
    ("list", "secrets"),
    ("update", "llmservices.serving.llmservice.dev"),
    ("patch", "llmservices.serving.llmservice.dev"),
    ("delete", "llmservices.serving.llmservice.dev"),
    *(("update", kind.plural) for kind in (kinds.DEPLOYMENT, kinds.JOB, kinds.CLAIM, kinds.NETWORK)),
    ("deletecollection", "persistentvolumeclaims"),
    ("delete", "events"),
    ("create", "pods"),
    ("get", "configmaps"),
    ("get", "nodes"),
    ("watch", "nodes"),
    ("create", "leases.coordination.k8s.io"),
    ("create", "clusterroles.rbac.authorization.k8s.io"),
]


@pytest.mark.parametrize(
    ("verb", "resource", "answer"),
    [(*asked, "yes") for asked in ALLOWED] + [(*asked, "no") for asked in FORBIDDEN],
)
def test_operator_may_do_what_it_does_and_no_more(
    installed: Kubectl, verb: str, resource: str, answer: str
) -> None:
    name, _, subresource = resource.partition("/")
    more = [f"--subresource={subresource}"] if subresource else []
    done = installed(
        "auth", "can-i", verb, name, *more, f"--as={ACCOUNT}", "--namespace=default", check=False
    )
    assert done.stdout.strip() == answer


def test_operators_own_pods_are_admitted_where_only_restricted_ones_are(installed: Kubectl) -> None:
    deadline = time.monotonic() + 30
    pods: list[Any] = []
    while len(pods) < 4 and time.monotonic() < deadline:
        pods = json.loads(installed("get", "pods", f"--namespace={helm.NAMESPACE}", "-o", "json").stdout)[
            "items"
        ]
        time.sleep(0.2)
    assert len(pods) == 4, installed("get", "events", f"--namespace={helm.NAMESPACE}").stdout


def test_list_reads_well_in_120_characters(installed: Kubectl) -> None:
    body = service({"replicas": 2})
    body["metadata"]["name"] = "llama3-8b-instruct"
    installed("apply", "-f", "-", given=body)
    status = {
        "observedGeneration": 1,
        "replicas": 2,
        "availableReplicas": 1,
        "conditions": [
            {
                "type": "Ready",
                "status": "False",
                "reason": "StartupDeadlineExceeded",
                "message": "…",
                "observedGeneration": 1,
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }
        ],
        "endpoint": {"url": "http://x", "models": ["meta-llama/Meta-Llama-3-8B-Instruct"]},
    }
    patch = json.dumps([{"op": "replace", "path": "/status", "value": status}])
    name = body["metadata"]["name"]
    installed("patch", "llmsvc", name, "--subresource=status", "--type=json", "-p", patch)
    head, row = installed("get", "llmsvc", name).stdout.splitlines()
    assert head.split() == ["NAME", "MODEL", "READY", "REASON", "REPLICAS", "AVAILABLE", "AGE"]
    assert max(len(head), len(row)) <= 120


def test_replicas_scale_though_the_manifest_names_none(installed: Kubectl) -> None:
    body = service({})
    body["metadata"]["name"] = "scaled"
    installed("apply", "-f", "-", given=body)
    installed("scale", "llmsvc", "scaled", "--replicas=2")
    assert installed("get", "llmsvc", "scaled", "-o", "jsonpath={.spec.replicas}").stdout == "2"


def test_upgrade_and_uninstall_keep_every_object(cluster: Cluster, installed: Kubectl) -> None:
    chart = (str(helm.CHART), f"--namespace={helm.NAMESPACE}")
    body = service({})
    body["metadata"]["name"] = "kept"
    installed("apply", "-f", "-", given=body)
    helm.run("upgrade", "llm", *chart, "--set=replicas=1", kubeconfig=cluster.kubeconfig)
    helm.run("uninstall", "llm", chart[1], kubeconfig=cluster.kubeconfig)
    assert installed("get", "llmsvc", "kept").returncode == 0
    left = installed(
        "get", "all,role,rolebinding,sa", f"--namespace={helm.NAMESPACE}", "-o", "name"
    ).stdout.split()
    assert not [name for name in left if name.endswith("llm-llmservice-operator")]
    helm.run("install", "llm", *chart, kubeconfig=cluster.kubeconfig)
