"""What people type against a real API server: a dry run, what is there, what an edit restarts, a page of status."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from tests.operator.control_plane import kube
from tests.operator.control_plane.conftest import Place
from tests.operator.control_plane.fleet import Fleet

Done = subprocess.CompletedProcess[str]
SECRETS = "/api/v1/namespaces/{}/secrets"


def types(kubeconfig: Path, *words: object, given: Any = None) -> Done:
    return subprocess.run(
        [sys.executable, "-m", "llmservice_operator.cli.people", *map(str, words)],
        input=None if given is None else yaml.safe_dump(given),
        env={**os.environ, "KUBECONFIG": str(kubeconfig)},
        text=True,
        capture_output=True,
        check=False,
        timeout=60,
    )


def admin(place: Place, *words: object, given: Any = None) -> Done:
    return types(place.kube.cluster.kubeconfig, *words, given=given)


def findings(
    place: Place, body: dict[str, Any], kubeconfig: Path | None = None
) -> dict[str, tuple[str, str]]:
    """About → (level, what is said)."""
    done = types(
        kubeconfig or place.kube.cluster.kubeconfig, "preflight", "-f", "-", "-o", "json", given=body
    )
    assert done.stderr == ""
    (told,) = json.loads(done.stdout).values()
    assert done.returncode == any(one["level"] == "fail" for one in told)
    return {one["about"]: (one["level"], f"{one['said']}; {one['next']}") for one in told}


def secret(place: Place, name: str, *keys: str) -> None:
    body = {"metadata": {"name": name}, "stringData": dict.fromkeys(keys, "x")}
    place.kube.call("POST", SECRETS.format(place.name), body)


# --- preflight -----------------------------------------------------------------------------------------------
def test_a_manifest_whose_needs_are_there_passes_and_nothing_is_written(place: Place) -> None:
    found = findings(place, place.service())
    assert found["dry run"] == ("ok", "the API server takes it; ")
    assert found["PersistentVolumeClaim models"][0] == "ok"
    assert place.get("LLMService") is None


def test_what_a_manifest_names_and_is_not_there_fails_with_the_next_move(place: Place) -> None:
    secret(place, "half", "other")
    variable = {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "half", "key": "key"}}}
    optional = {
        "name": "MORE",
        "valueFrom": {"configMapKeyRef": {"name": "gone", "key": "k", "optional": True}},
    }
    model = {"source": {"hf": {"repo": "org/m"}}, "tokenSecretRef": {"name": "hub"}}
    found = findings(
        place,
        place.service(
            model=model,
            engine={"env": [variable, optional]},
            cache={"storageClassName": "nowhere"},
            expose={"route": {"parentRefs": [{"name": "gateway"}]}},
        ),
    )
    assert found["Secret hub"] == (
        "fail",
        f"is not in namespace {place.name}, and spec.model.tokenSecretRef names it; create it, or name another",
    )
    assert found["Secret half"][0] == "fail"
    assert "has no key key" in found["Secret half"][1]
    assert "it has other" in found["Secret half"][1]
    assert found["ConfigMap gone"][0] == "warn"
    assert found["StorageClass nowhere"][0] == "fail"
    assert found["kind HTTPRoute"][0] == "fail"


def test_devices_that_no_node_offers_are_a_warning_and_those_that_are_free_are_counted(place: Place) -> None:
    wanted = place.service(accelerator={"count": 2, "resourceName": "example.com/chip"}, replicas=3)
    assert findings(place, wanted)["example.com/chip"][1].startswith("no node offers it now")
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"chips-{place.name}"}}
    place.kube.call("POST", "/api/v1/nodes", node)
    try:
        status = {"status": {"allocatable": {"example.com/chip": "4", "pods": "10"}}}
        where = f"/api/v1/nodes/chips-{place.name}"
        place.kube.call("PATCH", f"{where}/status", status, "application/merge-patch+json")
        place.kube.call("PATCH", where, {"spec": {"taints": None}}, "application/merge-patch+json")
        kube.eventually(
            lambda: "the nodes have room for 2 now" in findings(place, wanted)["example.com/chip"][1],
            what=str(findings(place, wanted)),
        )
    finally:
        place.kube.call("DELETE", f"/api/v1/nodes/chips-{place.name}")


def test_what_a_person_may_not_read_cannot_be_told_and_is_no_failure(place: Place, tmp_path: Path) -> None:
    nobody = _stranger(place, tmp_path)
    found = findings(place, place.service(accelerator={"count": 1}), nobody)
    for about in ("dry run", "PersistentVolumeClaim models", "nvidia.com/gpu"):
        assert found[about][0] == "warn"
        assert "cannot be told: " in found[about][1]


def test_the_api_servers_refusal_is_quoted(place: Place) -> None:
    body = place.service()
    body["metadata"]["labels"] = {"team": "not a label value"}
    assert "not a label value" in findings(place, body)["dry run"][1]


def test_each_child_is_tried_and_the_one_that_is_refused_is_named_with_the_reason(place: Place) -> None:
    found = findings(place, place.service(replicas=2, networkPolicy={"enabled": True}))
    level, said = found["children"]
    assert level == "ok"
    assert "Deployment chat, Service chat, NetworkPolicy chat, PodDisruptionBudget chat" in said
    container = {"name": "engine", "securityContext": {"runAsUser": -1}}
    found = findings(place, place.service(template={"spec": {"containers": [container]}}))
    level, said = found["Deployment chat"]
    assert level == "fail"
    assert "spec.template.spec.containers[0].securityContext.runAsUser: Invalid value: -1" in said
    assert "Service chat" in found["children"][1]
    assert place.get("Deployment") is None
    assert place.get("Service") is None


def test_a_child_whose_name_somebody_else_has_is_named_with_its_owner(place: Place) -> None:
    body = {"metadata": {"name": "chat"}, "spec": {"ports": [{"port": 80}]}}
    place.kube.create("Service", body, place.name)
    level, said = findings(place, place.service())["Service chat"]
    assert level == "fail"
    assert said == (
        "exists and belongs to nobody that this operator knows (it lacks the operator's labels); "
        "rename one of the two"
    )


def test_children_that_are_there_already_are_tried_as_an_edit(place: Place, operators: Fleet) -> None:
    place.apply(replicas=2)
    place.wait_ready()
    before = place.versions()
    found = findings(place, place.service(replicas=3))
    assert found["children"][0] == "ok"
    assert not [one for one in found if one.startswith(("Deployment", "Service"))]
    assert place.versions() == before


def test_a_person_who_may_write_the_object_alone_is_told_what_cannot_be_told(
    place: Place, tmp_path: Path
) -> None:
    person = _stranger(place, tmp_path)
    rule = {"apiGroups": ["serving.llmservice.dev"], "resources": ["llmservices"],
            "verbs": ["get", "create", "patch"]}  # fmt: skip
    rights = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{place.name}"
    place.kube.call("POST", f"{rights}/roles", {"metadata": {"name": "writes"}, "rules": [rule]})
    subject = {"kind": "ServiceAccount", "name": "stranger", "namespace": place.name}
    place.kube.call("POST", f"{rights}/rolebindings", {
        "metadata": {"name": "writes"}, "subjects": [subject],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "writes"},
    })  # fmt: skip
    found = kube.eventually(
        lambda: told if (told := findings(place, place.service(), person))["dry run"][0] == "ok" else None
    )
    for child in ("Deployment chat", "Service chat"):
        assert found[child][0] == "warn"
        assert "cannot be told: " in found[child][1]
    assert "children" not in found


def test_an_object_that_is_there_already_is_tried_as_an_edit(place: Place, operators: Fleet) -> None:
    place.apply()
    version = place.must("LLMService")["metadata"]["resourceVersion"]
    assert findings(place, place.service(replicas=2))["dry run"][0] == "ok"
    kube.eventually(lambda: place.must("LLMService").get("status"), what="a status")
    assert place.must("LLMService")["spec"]["replicas"] == 1
    assert version is not None


# --- render --against cluster --------------------------------------------------------------------------------
def test_an_edit_is_compared_with_what_the_cluster_has(place: Place, operators: Fleet) -> None:
    place.apply(replicas=2)
    place.wait_ready()
    more = admin(place, "render", "-f", "-", "--against", "cluster", given=place.service(replicas=3))
    assert (more.returncode, more.stdout.splitlines()[-1]) == (
        0,
        "this edit restarts nothing and starts 1 pod more",
    )
    longer = place.service(replicas=2, engine={"maxModelLen": 512})
    done = admin(place, "render", "-f", "-", "--against", "cluster", given=longer)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (
        1, "this edit restarts 2 pods because spec.engine.maxModelLen changed"
    )  # fmt: skip
    before = place.must("Deployment")["spec"]["template"]["metadata"]["labels"]
    place.kube.apply(longer)
    kube.eventually(lambda: place.must("Deployment")["spec"]["template"]["metadata"]["labels"] != before)


def test_what_the_cluster_does_not_have_is_nothing_to_compare_with(place: Place) -> None:
    done = admin(place, "render", "-f", "-", "--against", "cluster", given=place.service("new"))
    assert (done.returncode, done.stdout) == (2, "")
    assert f"the cluster has no LLMService {place.name}/new" in done.stderr


# --- status --------------------------------------------------------------------------------------------------
def test_the_page_of_one_that_is_ready_says_so_within_a_hundred_columns(
    place: Place, operators: Fleet
) -> None:
    place.apply()
    place.wait_ready()
    done = admin(place, "status", "chat", "-n", place.name)
    assert done.returncode == 0, done.stderr
    assert max(map(len, done.stdout.splitlines())) <= 100
    words = [line.split() for line in done.stdout.splitlines()]
    assert any(line[:3] == ["Ready", "True", "ReplicasAvailable"] for line in words), done.stdout
    assert ["replicas", "1:", "1", "ready,", "1", "updated,", "1", "available"] in words
    assert any(line[:1] == ["endpoint"] for line in words)
    assert any(line[:1] == ["start-up"] for line in words)


def test_one_that_is_not_ready_ends_with_1_and_json_is_its_status(place: Place, operators: Fleet) -> None:
    place.apply(model={"source": {"pvc": {"claimName": "absent"}}})
    kube.eventually(
        lambda: (place.must("LLMService").get("status") or {}).get("conditions"), what="conditions"
    )
    done = admin(place, "status", "chat", "-n", place.name, "-o", "json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["conditions"]


def test_one_that_is_not_there_is_one_line(place: Place) -> None:
    done = admin(place, "status", "absent", "-n", place.name)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"llmservice status: namespace {place.name} has no LLMService absent\n"


def test_a_server_that_does_not_answer_is_one_line(tmp_path: Path) -> None:
    config = {
        "apiVersion": "v1", "kind": "Config", "current-context": "x",
        "clusters": [{"name": "x", "cluster": {"server": "http://127.0.0.1:9"}}],
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}], "users": [{"name": "x", "user": {}}],
    }  # fmt: skip
    file = tmp_path / "config"
    file.write_text(yaml.safe_dump(config))
    done = types(file, "status", "chat")
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1
    assert "no answer from the API server" in done.stderr


def _stranger(place: Place, folder: Path) -> Path:
    """A kubeconfig of somebody without any right: a fresh service account."""
    accounts = f"/api/v1/namespaces/{place.name}/serviceaccounts"
    place.kube.call("POST", accounts, {"metadata": {"name": "stranger"}})
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = place.kube.call("POST", f"{accounts}/stranger/token", asked)
    assert token is not None
    config = yaml.safe_load(place.kube.cluster.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": token["status"]["token"]}
    file = folder / "kubeconfig"
    file.write_text(yaml.safe_dump(config))
    return file
