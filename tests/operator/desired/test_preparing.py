"""From a repository's name to running pods: look up, copy, and only then deploy. What runs is never held back."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from llmservice_operator.api import spec
from llmservice_operator.api.copies import Facts
from llmservice_operator.api.seen import CacheSeen, Seen
from llmservice_operator.api.spec import LLMService
from llmservice_operator.desired import copying

from tests.operator.desired import world
from tests.operator.desired.test_copying import claim, key_of

LLAMA = {
    "architectures": ["LlamaForCausalLM"], "hidden_size": 4096, "intermediate_size": 14336,
    "num_attention_heads": 32, "num_key_value_heads": 8, "num_hidden_layers": 32, "vocab_size": 128256,
    "max_position_embeddings": 8192, "torch_dtype": "bfloat16",
}  # fmt: skip
FACTS = Facts("c0ffee", 16_100_000_000, 9, 16_060_000_000, 8_030_000_000, "bfloat16", 8192, LLAMA)
SOURCE = {"source": {"hf": {"repo": "org/Llama-8B"}}}
GPU = {"count": 1, "memoryPerDevice": "24Gi"}


def hub(**fields: Any) -> LLMService:
    return spec.parse(world.body(model=SOURCE, **fields))


def done(job: dict[str, Any]) -> dict[str, Any]:
    conditions = [{"type": "Complete", "status": "True", "lastTransitionTime": "2026-01-01T11:59:00Z"}]
    metadata = job["metadata"] | {"uid": f"uid-{job['metadata']['name']}"}
    return job | {"metadata": metadata, "status": {"conditions": conditions}}


def told(job: dict[str, Any], message: str, code: int = 0) -> dict[str, Any]:
    """The finished pod of a job."""
    ended = {"exitCode": code, "message": message, "reason": "Completed" if code == 0 else "Error"}
    return {
        "kind": "Pod",
        "metadata": {
            "name": job["metadata"]["name"] + "-x",
            "labels": dict(job["metadata"]["labels"]),
            "ownerReferences": [{"kind": "Job", "uid": job["metadata"]["uid"]}],
        },
        "spec": {"containers": [{"name": "prefetch"}]},
        "status": {
            "phase": "Succeeded" if code == 0 else "Failed",
            "containerStatuses": [{"name": "prefetch", "ready": False, "state": {"terminated": ended}}],
        },
    }


def looked_up(wanted: LLMService, facts: Facts = FACTS, **around: Any) -> Seen:
    """The lookup's job has told."""
    job = done(world.rendered(wanted, world.seen(**around))["Job"])
    return world.seen(job, pods=(told(job, facts.message()),), **around)


def copied(wanted: LLMService, seen: Seen) -> Seen:
    """The copy is complete."""
    body = world.body(model=SOURCE)
    key, live = key_of(body), claim()
    model = world.planned(wanted, seen).model
    found = copying.render(
        key, [copying.User(wanted, model)], [body], CacheSeen(claim=live), world.DEFAULTS, world.NOON
    )
    (job,) = (child for child in found.children if child["kind"] == "Job")
    return dataclasses.replace(seen, cache=CacheSeen(claim=live, jobs=(done(job),)))


def test_first_the_model_is_looked_up_and_nothing_else_is_made_but_the_service() -> None:
    children = world.rendered(hub(), world.seen(claims=()))
    assert list(children) == ["Job", "Service"]
    container = children["Job"]["spec"]["template"]["spec"]["containers"][0]
    assert container["args"][:2] == ["fetch", "resolve"]
    assert not any(mount["name"] == "model" for mount in container["volumeMounts"]), "it needs no volume"


def test_once_it_is_known_the_template_is_frozen_with_its_commit_and_waits_for_the_copy() -> None:
    children = world.rendered(hub(), looked_up(hub(), claims=()))
    assert list(children) == ["Job", "ControllerRevision", "Service"]
    data = children["ControllerRevision"]["data"]
    assert data["model"]["revision"] == "c0ffee"
    args = data["template"]["spec"]["containers"][0]["args"]
    assert args[2] == "/mnt/model/hub/models--org--Llama-8B/snapshots/c0ffee"
    assert args[3:6] == ["--served-model-name", "org/Llama-8B", "llama"]


def test_when_the_copy_is_complete_the_pods_come_and_the_lookup_goes() -> None:
    wanted, seen = hub(), looked_up(hub(), claims=())
    frozen = world.rendered(wanted, seen)["ControllerRevision"]
    later = dataclasses.replace(seen, children={**seen.children, ("ControllerRevision", "x"): frozen})
    later = dataclasses.replace(
        later,
        children={(child["kind"], child["metadata"]["name"]): child for child in later.children.values()},
    )
    found = world.render_all(wanted, copied(wanted, later))
    assert [child["kind"] for child in found.children] == ["ControllerRevision", "Deployment", "Service"]
    assert [kind for kind, _ in found.unwanted] == ["Job"]
    deployment = found.children[1]
    (volume,) = (one for one in deployment["spec"]["template"]["spec"]["volumes"] if one["name"] == "model")
    assert volume["persistentVolumeClaim"]["claimName"] == wanted.claim_name


def test_the_deadline_follows_the_models_own_bytes() -> None:
    plan = world.planned(hub(), looked_up(hub(), claims=()))
    assert (plan.budget.deadline_seconds, plan.budget.basis) == (441, "Derived")


def test_an_edit_keeps_what_runs_until_the_new_copy_is_there() -> None:
    wanted = hub()
    seen = looked_up(wanted, claims=())
    first = world.rendered(wanted, copied(wanted, seen))
    edited = hub(engine={"maxModelLen": 2048})
    running = world.seen(first["ControllerRevision"], first["Deployment"], claims=())
    children = world.rendered(edited, running)
    assert children["Deployment"]["spec"]["template"] == first["Deployment"]["spec"]["template"]
    assert "Job" in children, "a branch is resolved again for the new spec"


def test_what_runs_is_not_taken_away_when_its_cache_is_lost() -> None:
    wanted = hub()
    first = world.rendered(wanted, copied(wanted, looked_up(wanted, claims=())))
    lost = world.seen(first["ControllerRevision"], first["Deployment"], claims=())
    children = world.rendered(wanted, lost)
    assert children["Deployment"]["spec"]["template"] == first["Deployment"]["spec"]["template"]


def test_enforced_what_cannot_fit_gets_no_pods() -> None:
    wanted = hub(accelerator={**GPU, "memoryPerDevice": "8Gi", "fitPolicy": "Enforce"})
    seen = copied(wanted, looked_up(wanted, claims=()))
    plan = world.planned(wanted, seen)
    assert plan.memory is not None
    assert plan.memory.verdict == "DoesNotFit"
    assert "Deployment" not in world.rendered(wanted, seen)
    fits = hub(accelerator={**GPU, "fitPolicy": "Enforce"}, engine={"maxModelLen": 4096})
    assert "Deployment" in world.rendered(fits, copied(fits, looked_up(fits, claims=())))


def test_of_weights_on_a_claim_the_verdict_is_sought_only_where_a_second_pod_may_mount_it() -> None:
    shared = {**world.CLAIM, "spec": {**world.CLAIM["spec"], "accessModes": ["ReadWriteMany"]}}
    wanted = world.wanted(accelerator=GPU)
    assert "Job" in world.rendered(wanted, world.seen(claims=(shared,)))
    assert "Deployment" in world.rendered(wanted, world.seen(claims=(shared,))), "a warning holds nothing up"
    assert "Job" not in world.rendered(wanted, world.seen())
    assert "Job" not in world.rendered(world.wanted(), world.seen(claims=(shared,)))
    enforced = world.wanted(accelerator={**GPU, "fitPolicy": "Enforce"})
    assert "Deployment" not in world.rendered(enforced, world.seen(claims=(shared,)))


@pytest.mark.parametrize(
    ("cache", "volume"),
    [
        ({"mode": "None"}, {"emptyDir": {}}),
        ({"mode": "Managed", "prefetch": False}, None),
        (
            {"mode": "Ephemeral", "storageClassName": "fast"},
            {
                "ephemeral": {
                    "volumeClaimTemplate": {
                        "spec": {
                            "accessModes": ["ReadWriteOnce"],
                            "resources": {"requests": {"storage": "18Gi"}},
                            "storageClassName": "fast",
                        }
                    }
                }
            },
        ),
    ],
    ids=["None", "no prefetch", "Ephemeral"],
)
def test_without_a_prefetch_each_pod_copies_before_its_engine_starts(
    cache: dict[str, Any], volume: dict[str, Any] | None
) -> None:
    wanted = spec.parse(world.body(model={**SOURCE, "tokenSecretRef": {"name": "hub"}}, cache=cache))
    children = world.rendered(wanted, looked_up(wanted, claims=()))
    pod = children["Deployment"]["spec"]["template"]["spec"]
    (init,) = pod["initContainers"]
    assert init["args"][:2] == ["fetch", "copy"]
    (model,) = (one for one in pod["volumes"] if one["name"] == "model")
    if volume is not None:
        assert {key: value for key, value in model.items() if key != "name"} == volume
    assert any(one["name"] == "token" for one in pod["volumes"])


def test_a_chat_template_is_mounted_and_named() -> None:
    reference = {"configMapKeyRef": {"name": "templates", "key": "mine.jinja"}}
    children = world.rendered(world.wanted(engine={"chatTemplate": reference}), world.seen())
    container = world.engine(children)
    assert container["args"][-2:] == ["--chat-template", "/etc/llmservice/chat-template/mine.jinja"]


def test_a_learnt_start_counts_for_the_next_template_of_the_same_model_and_never_before() -> None:
    first = world.rendered(world.wanted(), world.seen())
    running = dataclasses.replace(world.seen(*first.values()), status={"startup": {"lastLoadSeconds": 400}})
    assert world.rendered(world.wanted(), running) == first
    edited = world.planned(world.wanted(engine={"maxModelLen": 128}), running)
    assert (edited.budget.deadline_seconds, edited.budget.basis) == (920, "Observed")
    other = world.wanted(accelerator={"count": 0})
    assert world.planned(other, running).budget.basis == "Derived"
