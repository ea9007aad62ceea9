"""What is rendered, and above all: what does not change it."""

from __future__ import annotations

from typing import Any

import pytest
from llmservice_operator.api import compare, names, revision, spec
from llmservice_operator.api.defaults import Defaults
from llmservice_operator.desired import plan
from llmservice_planner import settings

from tests.operator.desired import world

NEWER_OPERATOR = Defaults(image="engine:2", tolerations=({"key": "new"},), runtime_class_name="nvidia")


def template(children: dict[str, dict[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = children["Deployment"]["spec"]["template"]
    return found


def test_children_come_in_the_order_in_which_they_are_applied() -> None:
    children = world.rendered(world.wanted(), world.seen())
    assert list(children) == ["ControllerRevision", "Deployment", "Service"]


def test_every_child_is_owned_labelled_and_hashed() -> None:
    for child in world.rendered(world.wanted(), world.seen()).values():
        (owner,) = child["metadata"]["ownerReferences"]
        assert (owner["uid"], owner["controller"], owner["blockOwnerDeletion"]) == ("u-1", True, True)
        assert names.labels("llama").items() <= child["metadata"]["labels"].items()
        assert child["metadata"]["annotations"][names.RENDER_HASH]


def test_equal_input_renders_equal_children() -> None:
    assert world.rendered(world.wanted(), world.seen()) == world.rendered(world.wanted(), world.seen())


def test_operator_upgrade_with_other_defaults_changes_nothing() -> None:
    first = world.rendered(world.wanted(), world.seen())
    later = world.rendered(world.wanted(), world.seen(*first.values()), NEWER_OPERATOR)
    assert later == first


def test_budget_learnt_later_changes_nothing() -> None:
    first = world.rendered(world.wanted(), world.seen())
    larger = {"metadata": {"name": "models"}, "status": {"capacity": {"storage": "10Ti"}}}
    around = world.seen(*first.values(), claims=(larger,))
    assert world.rendered(world.wanted(), around) == first
    assert plan.budget(world.wanted(), around).deadline_seconds == 320


def test_new_spec_takes_the_new_defaults_and_the_next_number() -> None:
    first = world.rendered(world.wanted(), world.seen())
    edited = world.wanted(engine={"maxModelLen": 128})
    later = world.rendered(edited, world.seen(*first.values()), NEWER_OPERATOR)
    assert world.engine(later)["image"] == "engine:2"
    assert later["ControllerRevision"]["revision"] == 2
    assert later["ControllerRevision"]["metadata"]["name"] != first["ControllerRevision"]["metadata"]["name"]


def test_edit_taken_back_gets_its_old_template_back() -> None:
    first = world.rendered(world.wanted(), world.seen())
    second = world.rendered(world.wanted(engine={"maxModelLen": 128}), world.seen(*first.values()))
    around = world.seen(*first.values(), second["ControllerRevision"], second["Deployment"])
    assert world.rendered(world.wanted(), around, NEWER_OPERATOR) == first


@pytest.mark.parametrize(
    "fields",
    [
        {"replicas": 3},
        {"suspend": True},
        {"expose": {"service": {"port": 80, "name": "web"}}},
        {"accelerator": {"count": 1, "resourceName": "nvidia.com/gpu"}},
        {"rollout": {"drainTimeout": "120s"}},
        {"startup": {"safetyFactor": 2.0}},
        {"template": {"spec": {}}},
        {"engine": {"args": []}},
        {"accelerator": {"memoryPerDevice": "80Gi", "fitPolicy": "Enforce"}},
        {"autoscaling": {"maxReplicas": 4}},
        {"rollout": {"strategy": "Recreate", "minReady": "10s"}},
        {"monitoring": {"podMonitor": "Enabled"}},
    ],
    ids=str,
)
def test_template_does_not_change_with(fields: dict[str, Any]) -> None:
    assert revision.hash_of(world.wanted(**fields)) == revision.hash_of(world.wanted())


@pytest.mark.parametrize(
    "fields",
    [
        {"engine": {"maxModelLen": 128}},
        {"engine": {"args": ["--seed", "1"]}},
        {"accelerator": {"count": 0}},
        {"resources": {"limits": {"memory": "1Gi"}}},
        {"rollout": {"drainTimeout": "60s"}},
        {"startup": {"deadline": "10m"}},
        {"template": {"spec": {"nodeSelector": {"a": "b"}}}},
    ],
    ids=str,
)
def test_template_changes_with(fields: dict[str, Any]) -> None:
    assert revision.hash_of(world.wanted(**fields)) != revision.hash_of(world.wanted())


def test_quantity_in_another_spelling_is_the_same_spec() -> None:
    one = world.wanted(resources={"limits": {"cpu": 1, "memory": "1024Mi"}})
    other = world.wanted(resources={"limits": {"cpu": "1000m", "memory": "1Gi"}})
    assert revision.hash_of(one) == revision.hash_of(other)


def test_hash_is_what_earlier_operators_computed() -> None:
    """It may never change: a new hash restarts every model on upgrade."""
    assert revision.hash_of(world.wanted()) == "119bd55138"
    assert (
        revision.hash_of(world.wanted(engine={"maxModelLen": 4096}, accelerator={"count": 0})) == "c84261aa45"
    )


def test_without_replicas_the_deployments_field_is_left_to_others() -> None:
    assert "replicas" not in world.rendered(world.wanted(), world.seen())["Deployment"]["spec"]


@pytest.mark.parametrize(
    ("fields", "replicas"), [({"replicas": 4}, 4), ({"replicas": 0}, 0), ({"suspend": True}, 0)]
)
def test_replicas_are_applied_when_given(fields: dict[str, Any], replicas: int) -> None:
    assert world.rendered(world.wanted(**fields), world.seen())["Deployment"]["spec"]["replicas"] == replicas


def test_while_the_claim_is_missing_nothing_that_waits_for_it_is_made() -> None:
    assert list(world.rendered(world.wanted(), world.seen(claims=()))) == ["Service"]


def test_while_the_new_claim_is_missing_the_old_template_goes_on_and_still_scales() -> None:
    first = world.rendered(world.wanted(), world.seen())
    moved = world.wanted(model={"source": {"pvc": {"claimName": "other"}}}, replicas=3)
    later = world.rendered(moved, world.seen(*first.values()))
    assert template(later) == template(first)
    assert later["Deployment"]["spec"]["replicas"] == 3


def test_devices_roll_in_place_and_a_cpu_service_surges() -> None:
    strategy = world.rendered(world.wanted(), world.seen())["Deployment"]["spec"]["strategy"]
    assert strategy["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 1}
    strategy = world.rendered(world.wanted(accelerator={"count": 0}), world.seen())["Deployment"]["spec"][
        "strategy"
    ]
    assert strategy["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}


def test_any_device_is_counted_on_both_sides_and_none_on_the_cpu() -> None:
    two = world.rendered(world.wanted(accelerator={"count": 2, "resourceName": "amd.com/gpu"}), world.seen())
    resources = world.engine(two)["resources"]
    assert resources == {"requests": {"amd.com/gpu": "2"}, "limits": {"amd.com/gpu": "2"}}
    assert (
        world.engine(world.rendered(world.wanted(accelerator={"count": 0}), world.seen()))["resources"] == {}
    )


def test_model_names_with_slashes_never_reach_a_label() -> None:
    children = world.rendered(
        world.wanted(model={"source": {"pvc": {"claimName": "models"}}, "servedNames": ["org/Name-3.2-B"]}),
        world.seen(),
    )
    labels = [
        *children["Deployment"]["metadata"]["labels"].values(),
        *template(children)["metadata"]["labels"].values(),
    ]
    assert not any("/" in value for value in labels)
    assert "org/Name-3.2-B" in world.engine(children)["args"]


def test_arguments_are_a_command_line_that_the_engine_takes() -> None:
    wanted = world.wanted(
        engine={"maxModelLen": 4096, "dtype": "float16", "args": ["--max-model-len", "1024"]}
    )
    command, *arguments = world.engine(world.rendered(wanted, world.seen()))["args"]
    parsed = settings.parse_args(arguments)
    assert command == "serve"
    assert parsed.model == "/mnt/model"
    assert parsed.served_names == ("llama",)
    assert parsed.drain_timeout == 120
    assert parsed.max_model_len == 1024, "of a repeated flag the last one counts"


def test_tool_and_reasoning_settings_reach_the_engine_as_its_flags() -> None:
    typed = {"enableAutoToolChoice": True, "toolCallParser": "hermes", "reasoningParser": "qwen3"}
    _, *arguments = world.engine(world.rendered(world.wanted(engine=typed), world.seen()))["args"]
    parsed = settings.parse_args(arguments)
    assert (parsed.enable_auto_tool_choice, parsed.tool_call_parser, parsed.reasoning_parser) == (
        True,
        "hermes",
        "qwen3",
    )


def test_pod_has_time_for_pre_stop_drain_and_exit() -> None:
    children = world.rendered(world.wanted(rollout={"drainTimeout": "5m"}), world.seen())
    pre_stop = world.engine(children)["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert template(children)["spec"]["terminationGracePeriodSeconds"] > pre_stop + 300


def test_startup_probe_covers_the_budget_and_the_progress_deadline_exceeds_it() -> None:
    children = world.rendered(world.wanted(startup={"deadline": "15m"}), world.seen())
    probe = world.engine(children)["startupProbe"]
    assert probe["failureThreshold"] * probe["periodSeconds"] == 900
    assert children["Deployment"]["spec"]["progressDeadlineSeconds"] > 900
    assert "initialDelaySeconds" not in world.engine(children)["livenessProbe"]


def test_probes_go_by_port_name_and_ask_what_they_mean() -> None:
    container = world.engine(world.rendered(world.wanted(), world.seen()))
    asked = {kind: container[kind]["httpGet"] for kind in ("startupProbe", "livenessProbe", "readinessProbe")}
    assert {get["port"] for get in asked.values()} == {"http"}
    assert [get["path"] for get in asked.values()] == ["/health", "/health", "/ready"]


def test_pod_is_restricted_and_writes_only_to_its_scratch_volume() -> None:
    children = world.rendered(world.wanted(), world.seen())
    pod, container = template(children)["spec"], world.engine(children)
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["securityContext"]["fsGroupChangePolicy"] == "OnRootMismatch"
    assert pod["enableServiceLinks"] is False
    assert pod["automountServiceAccountToken"] is False
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    writable = [mount["mountPath"] for mount in container["volumeMounts"] if not mount.get("readOnly")]
    assert writable == ["/tmp"]
    folders = {variable["name"]: variable["value"] for variable in container["env"]}
    for name in ("HOME", "HF_HOME", "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "XDG_CACHE_HOME"):
        assert folders[name].startswith("/tmp")


def test_service_keeps_its_name_its_port_is_http_and_its_labels_are_ours_first() -> None:
    exposed = {"service": {"name": "web", "type": "NodePort", "port": 80, "labels": {"team": "a"}}}
    service = world.rendered(world.wanted(expose=exposed), world.seen())["Service"]
    assert service["metadata"]["name"] == "web"
    assert service["metadata"]["labels"] == names.labels("llama") | {"team": "a"}
    assert service["spec"]["ports"] == [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": "http"}]


def test_object_labels_are_not_copied_to_children() -> None:
    body = world.body()
    body["metadata"]["labels"] = {"argocd.argoproj.io/instance": "x"}
    assert "argocd" not in str(world.rendered(spec.parse(body), world.seen()))


def test_rendered_children_equal_themselves_after_the_api_server_has_kept_them() -> None:
    for child in world.rendered(world.wanted(), world.seen()).values():
        live = {**child, "status": {}, "metadata": {**child["metadata"], "resourceVersion": "1"}}
        assert compare.differs(child, live) is None


def test_renamed_service_leaves_its_old_one_unwanted() -> None:
    first = world.rendered(world.wanted(), world.seen())
    around = world.seen(*first.values())
    renamed = world.wanted(expose={"service": {"name": "web"}})
    assert world.render_all(renamed, around).unwanted == (("Service", "llama"),)


def test_deployment_is_never_unwanted() -> None:
    first = world.rendered(world.wanted(), world.seen())
    around = world.seen(first["Deployment"], claims=())
    assert world.render_all(world.wanted(), around).unwanted == ()


def test_three_newest_revisions_stay_and_those_in_use() -> None:
    around = world.seen()
    first = world.rendered(world.wanted(), around)
    kept = list(first.values())
    for length in range(1, 7):
        children = world.rendered(world.wanted(engine={"maxModelLen": length}), world.seen(*kept))
        kept.append(children["ControllerRevision"])
    around = world.seen(*kept)  # the Deployment still runs the first
    now = world.wanted(engine={"maxModelLen": 2})  # an old one, taken again
    gone = {name for _, name in world.render_all(now, around).unwanted}
    revisions = [child["metadata"]["name"] for child in kept if child["kind"] == "ControllerRevision"]
    assert gone == {revisions[1], revisions[3]}
    assert first["ControllerRevision"]["metadata"]["name"] not in gone


@pytest.mark.parametrize(
    ("claim", "seconds"),
    [
        ({"spec": {"resources": {"requests": {"storage": "10G"}}}}, 320),
        (
            {
                "spec": {"resources": {"requests": {"storage": "10G"}}},
                "status": {"capacity": {"storage": "20G"}},
            },
            520,
        ),
        ({"spec": {}, "status": {"phase": "Pending"}}, 120),
        ({"status": {"capacity": {"storage": "1Pi"}}}, plan.LONGEST_SECONDS),
    ],
)
def test_budget_follows_the_claims_bytes(claim: dict[str, Any], seconds: int) -> None:
    around = world.seen(claims=({"metadata": {"name": "models"}, **claim},))
    found = plan.budget(world.wanted(), around)
    assert (found.deadline_seconds, found.basis) == (seconds, "Derived")


def test_budget_of_the_spec_goes_first() -> None:
    found = plan.budget(world.wanted(startup={"deadline": "1h30m"}), world.seen())
    assert (found.deadline_seconds, found.basis) == (5400, "Spec")
