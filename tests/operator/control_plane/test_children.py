"""One object becomes its children; what somebody else does to them is put right; at rest nothing is written."""

from __future__ import annotations

import time
from functools import partial

from tests.operator.control_plane import kube
from tests.operator.control_plane.audit import Audit
from tests.operator.control_plane.conftest import Place
from tests.operator.control_plane.fleet import IMAGE, Fleet


def test_an_object_becomes_deployment_service_and_revision_that_it_owns(
    place: Place, operators: Fleet
) -> None:
    place.apply()
    uid = place.must("LLMService")["metadata"]["uid"]
    deployment, service = place.wait_for("Deployment"), place.wait_for("Service")
    revisions = place.kube.list("ControllerRevision", place.name)
    assert len(revisions) == 1
    for child in (deployment, service, *revisions):
        owners = child["metadata"]["ownerReferences"]
        assert [(owner["uid"], owner["controller"]) for owner in owners] == [(uid, True)]
    assert deployment["spec"]["template"]["spec"]["containers"][0]["image"] == IMAGE
    assert deployment["spec"]["replicas"] == 1


def test_becoming_ready_takes_no_more_than_six_writes(place: Place, audit: Audit) -> None:
    place.apply()
    place.wait_reason("Unschedulable")
    place.wait_ready()
    time.sleep(1.0)
    writes = audit.writes(place.name)
    print(f"writes to Ready: {writes}")
    assert len(writes) <= 6, (
        writes
    )  # Deployment and Service in 5, and one for the further child, the revision
    assert len([write for write in writes if "llmservices/status" in write]) >= 2
    assert not audit.refused(place.name)


def test_the_same_manifest_again_writes_nothing(place: Place, audit: Audit) -> None:
    body = place.apply()
    place.wait_ready()
    time.sleep(1.0)
    before, writes = place.versions(), len(audit.writes(place.name))
    place.kube.apply(body)
    place.kube.patch("LLMService", "chat", place.name, {"metadata": {"annotations": {"touched": "yes"}}})
    time.sleep(4.0)
    after = place.versions()
    assert before.pop("LLMService/chat") != after.pop("LLMService/chat"), "the touch itself"
    assert after == before
    assert len(audit.writes(place.name)) == writes


def test_a_child_edited_by_hand_is_put_right(place: Place, operators: Fleet) -> None:
    place.apply()
    place.wait_for("Service")
    place.kube.patch("Deployment", "chat", place.name, {"spec": {"replicas": 3}})
    kube.eventually(lambda: place.must("Deployment")["spec"]["replicas"] == 1, what="replicas are 1 again")
    place.kube.patch(
        "Service", "chat", place.name, {"spec": {"selector": {"app.kubernetes.io/instance": "other"}}}
    )
    kube.eventually(
        lambda: place.must("Service")["spec"]["selector"]["app.kubernetes.io/instance"] == "chat",
        what="the selector is ours again",
    )


def test_a_child_that_lost_our_label_gets_it_back(place: Place, operators: Fleet) -> None:
    place.apply()
    label = "app.kubernetes.io/managed-by"
    uid = place.wait_for("Service")["metadata"]["uid"]
    place.wait_reason("Unschedulable")
    place.kube.patch("Service", "chat", place.name, {"metadata": {"labels": {label: None}}})
    kube.eventually(lambda: label in place.must("Service")["metadata"]["labels"], what="the label is back")
    assert place.must("Service")["metadata"]["uid"] == uid


def test_a_deleted_child_comes_back(place: Place, operators: Fleet) -> None:
    place.apply()
    for kind in ("Service", "Deployment"):
        uid = place.wait_for(kind)["metadata"]["uid"]
        place.kube.delete(kind, "chat", place.name)
        kube.eventually(
            partial(_is_another, place, kind, uid),
            what=f"a new {kind}",
        )


def test_an_edit_reaches_the_template_within_a_second(place: Place, audit: Audit) -> None:
    place.apply()
    place.wait_ready()
    time.sleep(0.5)
    writes = len(audit.writes(place.name))
    place.kube.patch("LLMService", "chat", place.name, {"spec": {"engine": {"maxModelLen": 4096}}})
    edited = time.monotonic()
    kube.eventually(
        lambda: "4096" in str(place.must("Deployment")["spec"]["template"]), 5, "the flag is in the template"
    )
    assert time.monotonic() - edited < 1.0
    place.wait_ready()
    time.sleep(0.5)
    assert len(audit.writes(place.name)) - writes <= 6, audit.writes(place.name)[writes:]


def test_a_field_that_the_user_removes_disappears(place: Place, operators: Fleet) -> None:
    place.apply(
        template={"metadata": {"annotations": {"team": "a"}}},
        expose={"service": {"annotations": {"dns": "x"}}},
    )
    assert place.wait_for("Service")["metadata"]["annotations"]["dns"] == "x"
    assert place.must("Deployment")["spec"]["template"]["metadata"]["annotations"]["team"] == "a"
    place.apply()
    kube.eventually(
        lambda: "dns" not in place.must("Service")["metadata"]["annotations"], what="the annotation goes"
    )
    kube.eventually(
        lambda: (
            "team" not in (place.must("Deployment")["spec"]["template"]["metadata"].get("annotations") or {})
        ),
        what="the template's annotation goes",
    )


def test_replicas_left_out_are_never_applied(place: Place, operators: Fleet) -> None:
    place.apply(replicas=None)
    place.wait_for("Service")
    place.kube.patch("Deployment", "chat", place.name, {"spec": {"replicas": 3}})
    place.kube.patch("LLMService", "chat", place.name, {"spec": {"expose": {"service": {"port": 9000}}}})
    kube.eventually(
        lambda: place.must("Service")["spec"]["ports"][0]["port"] == 9000, what="the edit is acted on"
    )
    time.sleep(0.5)
    assert place.must("Deployment")["spec"]["replicas"] == 3


def test_kubectl_scale_works_and_reads_back(place: Place, operators: Fleet) -> None:
    place.apply()
    place.wait_ready()
    place.kube.kubectl("scale", "llmsvc", "chat", "--replicas=2", "-n", place.name)
    kube.eventually(
        lambda: place.must("Deployment")["spec"]["replicas"] == 2, what="the Deployment is scaled"
    )
    place.wait_ready()
    scale = place.kube.call("GET", kube.path("LLMService", place.name, "chat") + "/scale")
    assert scale is not None
    assert scale["status"]["replicas"] == 2
    assert "app.kubernetes.io/instance=chat" in scale["status"]["selector"]


def test_deleting_the_object_removes_its_children(place: Place, operators: Fleet) -> None:
    place.apply()
    place.wait_for("Service")
    place.kube.kubectl("delete", "llmsvc", "chat", "-n", place.name, "--wait=false")
    for kind in ("Deployment", "Service", "ControllerRevision", "Pod"):
        kube.eventually(partial(_none_left, place, kind), 30, f"no {kind} is left")


def test_an_object_made_anew_under_the_same_name_gets_its_own_children(
    place: Place, operators: Fleet
) -> None:
    place.apply()
    old = place.wait_for("Service")["metadata"]["uid"]
    place.kube.delete("LLMService", "chat", place.name)
    place.apply()
    uid = place.must("LLMService")["metadata"]["uid"]

    def own() -> bool:
        children = [place.get("Service"), place.get("Deployment")]
        return all(child and child["metadata"]["ownerReferences"][0]["uid"] == uid for child in children)

    kube.eventually(own, 30, "children of the new object")
    assert place.must("Service")["metadata"]["uid"] != old
    place.wait_ready()


def test_a_value_that_an_admission_policy_insists_on_is_not_fought_over(place: Place, audit: Audit) -> None:
    _insist_on_component(place, "policy")
    time.sleep(2.0)  # until the API server has compiled the policy
    place.apply()
    place.wait_ready()
    assert place.must("Service")["metadata"]["labels"]["app.kubernetes.io/component"] == "policy"
    place.kube.patch("LLMService", "chat", place.name, {"metadata": {"annotations": {"touched": "1"}}})
    time.sleep(1.5)
    writes = audit.writes(place.name)
    assert len([write for write in writes if "services" in write.split()[1].split("/")]) <= 3, writes
    assert len(writes) <= 9, writes


def _is_another(place: Place, kind: str, uid: str) -> bool:
    found = place.get(kind)
    return found is not None and found["metadata"]["uid"] != uid


def _none_left(place: Place, kind: str) -> bool:
    return not place.kube.list(kind, place.name)


def _insist_on_component(place: Place, value: str) -> None:
    group = "admissionregistration.k8s.io"
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE", "UPDATE"],
        "resources": ["services"],
    }
    change = f'[JSONPatch{{op: "replace", path: "/metadata/labels/app.kubernetes.io~1component", value: "{value}"}}]'
    policy = {
        "apiVersion": f"{group}/v1",
        "kind": "MutatingAdmissionPolicy",
        "metadata": {"name": f"insist-{place.name}"},
        "spec": {
            "matchConstraints": {
                "resourceRules": [rule],
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": place.name}},
            },
            "failurePolicy": "Fail",
            "reinvocationPolicy": "Never",
            "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": change}}],
        },
    }
    binding = {
        "apiVersion": f"{group}/v1",
        "kind": "MutatingAdmissionPolicyBinding",
        "metadata": {"name": f"insist-{place.name}"},
        "spec": {"policyName": f"insist-{place.name}"},
    }
    place.kube.apply(policy, binding)
