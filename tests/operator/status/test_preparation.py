"""What the conditions say while a model is looked up, judged and copied."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from llmservice_operator import status
from llmservice_operator.api.planned import Plan
from llmservice_operator.api.seen import Action, Applied, AppliedChild, CacheSeen, Seen
from llmservice_operator.api.spec import LLMService

from tests.operator.desired import test_attempts, test_copying, test_preparing, world
from tests.operator.status.test_judge import SCHEMA

HUB = test_preparing.hub()


def judged(wanted: LLMService, seen: Seen) -> dict[str, Any]:
    planned = world.planned(wanted, seen)
    found = status.judge(wanted, planned, seen, Applied(), world.NOON)
    jsonschema.validate(found, SCHEMA)
    assert not {"Reconciling", "Stalled"} <= {one["type"] for one in found["conditions"]}
    again = status.judge(wanted, planned, dataclasses.replace(seen, status=found), Applied(), world.NOON)
    assert again == found, "at rest nothing changes"
    return found


def said(found: dict[str, Any], kind: str) -> tuple[str, str, str]:
    one = next(one for one in found["conditions"] if one["type"] == kind)
    return one["status"], one["reason"], one["message"]


def running(wanted: LLMService) -> Seen:
    job = world.rendered(wanted, world.seen(claims=()))["Job"]
    job = job | {"metadata": job["metadata"] | {"uid": "running"}}
    return world.seen(job, claims=())


def failed(wanted: LLMService, report: dict[str, Any]) -> Seen:
    job = world.rendered(wanted, world.seen(claims=()))["Job"]
    conditions = [{"type": "Failed", "status": "True", "lastTransitionTime": "2026-01-01T12:00:00Z"}]
    job = job | {"metadata": job["metadata"] | {"uid": "failed"}, "status": {"conditions": conditions}}
    pod = test_preparing.told(job, json.dumps(report), code=1)
    return world.seen(job, pods=(pod,), claims=())


def test_while_it_is_looked_up_the_source_is_named() -> None:
    found = judged(HUB, running(HUB))
    assert said(found, "Ready")[:2] == ("False", "ResolvingModel")
    assert "org/Llama-8B at main" in said(found, "ModelResolved")[2]
    assert said(found, "Reconciling")[0] == "True"


@pytest.mark.parametrize(
    ("code", "final"),
    [("ModelGated", True), ("ModelNotFound", True), ("TokenMissing", True), ("HubUnreachable", False)],
)
def test_what_the_lookup_reports_is_the_reason(code: str, final: bool) -> None:
    report = {"code": code, "message": "so it is", "hint": "do this"}
    found = judged(HUB, failed(HUB, report))
    for kind in ("Ready", "ModelResolved", "Stalled" if final else "Reconciling"):
        assert said(found, kind)[1] == code
    assert said(found, "Ready")[2].endswith("so it is; do this")


def test_the_verdict_and_its_figures_are_there_before_a_byte_is_copied() -> None:
    wanted = test_preparing.hub(accelerator=test_preparing.GPU, engine={"maxModelLen": 4096})
    found = judged(wanted, test_preparing.looked_up(wanted, claims=()))
    assert said(found, "ModelResolved")[:2] == ("True", "Resolved")
    assert said(found, "MemoryFits")[0] == "True"
    assert found["memory"]["source"] == "Estimated"
    assert 14e9 < found["memory"]["weights"] < 17e9
    assert found["model"] == {
        "revision": "c0ffee",
        "weightBytes": 16_060_000_000,
        "parameters": 8_030_000_000,
        "dtype": "bfloat16",
        "contextLength": 8192,
    }
    assert said(found, "Ready")[:2] == ("False", "CacheClaimPending")


@pytest.mark.parametrize(("policy", "state"), [("Enforce", "Stalled"), ("Warn", "Reconciling")])
def test_what_does_not_fit_stalls_where_that_is_enforced(policy: str, state: str) -> None:
    device = {"count": 1, "memoryPerDevice": "8Gi", "fitPolicy": policy}
    wanted = test_preparing.hub(accelerator=device)
    found = judged(wanted, test_preparing.looked_up(wanted, claims=()))
    assert said(found, "MemoryFits")[:2] == ("False", "InsufficientGPUMemory")
    assert said(found, state)[0] == "True"
    assert found["memory"]["verdict"] == "DoesNotFit"


def test_without_the_devices_memory_there_is_no_verdict() -> None:
    found = judged(HUB, test_preparing.looked_up(HUB, claims=()))
    assert "memory" not in found
    assert "MemoryFits" not in {one["type"] for one in found["conditions"]}


def copying(**cache: Any) -> tuple[LLMService, Seen]:
    seen = test_preparing.looked_up(HUB, claims=())
    live = test_copying.claim()
    base = world.planned(HUB, dataclasses.replace(seen, cache=CacheSeen(claim=live)))
    assert base.copy is not None
    job = test_attempts.job(1, base="any") | {}
    return HUB, dataclasses.replace(seen, cache=CacheSeen(**({"claim": live, "jobs": (job,)} | cache)))


def test_a_copy_under_way_tells_its_figures_in_coarse_steps() -> None:
    wanted, seen = copying()
    found = judged(wanted, dataclasses.replace(seen, copied_bytes=8_100_000_000))
    assert said(found, "CacheReady")[1] == "Copying"
    assert "16.1 GB" in said(found, "CacheReady")[2]
    assert found["cache"]["bytesDone"] == 8_050_000_000
    assert found["cache"]["bytesTotal"] == 16_100_000_000


def test_a_refused_growth_is_quoted() -> None:
    words = "only dynamically provisioned pvc can be resized"
    child = AppliedChild("PersistentVolumeClaim", "c", Action.REFUSED, message=words, status_code=403)
    wanted, seen = copying(refused=(child,))
    assert said(judged(wanted, seen), "CacheReady")[1:] == (
        "ExpansionRefused",
        f"PersistentVolumeClaim c: {words}",
    )


def test_what_an_engine_has_measured_goes_before_the_estimate_and_stays() -> None:
    wanted = world.wanted(accelerator={"count": 0})
    told = {"verdict": "Fits", "weights": 1, "kvTokens": 2, "source": "Measured"}
    seen = dataclasses.replace(world.seen(), measured=told)
    found = status.judge(wanted, world.planned(wanted, seen), seen, Applied(), world.NOON)
    assert found["memory"] == told


def test_the_rollout_strategy_and_why_are_told() -> None:
    devices = judged(world.wanted(), world.seen())
    assert devices["rollout"]["strategy"] == "Recycle"
    assert "nvidia.com/gpu" in devices["rollout"]["reason"]
    assert judged(world.wanted(accelerator={"count": 0}), world.seen())["rollout"]["strategy"] == "Surge"


def scaler(**conditions: str) -> dict[str, Any]:
    given = [
        {"type": kind, "status": text, "reason": f"{kind}Reason", "message": "in its words"}
        for kind, text in conditions.items()
    ]
    return {
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "llama"},
        "status": {"conditions": given},
    }


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ({}, ("False", "AutoscalerPending")),
        ({"AbleToScale": "True", "ScalingActive": "False"}, ("False", "ScalingActiveReason")),
        ({"AbleToScale": "False", "ScalingActive": "True"}, ("False", "AbleToScaleReason")),
        ({"AbleToScale": "True", "ScalingActive": "True"}, ("True", "ScalingActiveReason")),
    ],
)
def test_the_autoscalers_own_words_are_quoted(conditions: dict[str, str], expected: tuple[str, str]) -> None:
    wanted = world.wanted(autoscaling={"maxReplicas": 3})
    deployment = world.rendered(wanted, world.seen())["Deployment"] | {"status": {"availableReplicas": 1}}
    found = judged(wanted, world.seen(scaler(**conditions), deployment))
    assert said(found, "AutoscalingActive")[:2] == expected


def test_before_the_first_replica_a_missing_figure_is_no_fault() -> None:
    wanted = world.wanted(autoscaling={"maxReplicas": 3})
    found = judged(wanted, world.seen(scaler(AbleToScale="True", ScalingActive="False")))
    assert said(found, "AutoscalingActive")[1] == "AutoscalerPending"


def test_a_kind_that_the_cluster_lacks_is_named() -> None:
    keda = {"maxReplicas": 3, "backend": "KEDA", "keda": {"prometheusAddress": "http://prometheus:9090"}}
    wanted = world.wanted(autoscaling=keda)
    assert said(judged(wanted, world.seen()), "AutoscalingActive")[1] == "KindNotServed"
    assert isinstance(world.planned(wanted, world.seen()), Plan)


# --- what stands in the way of scaling ------------------------------------------------------------------------
def apiservice(managed: bool, available: str = "True", version: str = "v1beta1") -> dict[str, Any]:
    labels = {"app.kubernetes.io/managed-by": "llmservice-operator"} if managed else {}
    condition = {"type": "Available", "status": available, "message": "no endpoints"}
    return {
        "metadata": {"name": f"{version}.custom.metrics.k8s.io", "labels": labels},
        "spec": {"service": {"namespace": "monitoring", "name": "prometheus-adapter"}},
        "status": {"conditions": [condition]},
    }


@pytest.mark.parametrize(
    ("group", "said_too"),
    [
        (None, ""),
        ((), "metricsApi.enabled"),
        ((apiservice(True),), ""),
        ((apiservice(True, "False"),), "our metrics server does not answer the API server: no endpoints"),
        (
            (apiservice(False),),
            "another provider, monitoring/prometheus-adapter (APIService v1beta1.custom.metrics.k8s.io): "
            "add the rule for num_requests_waiting there (docs/guides/autoscaling.md, Beside another provider), "
            "or set spec.autoscaling.backend to KEDA",
        ),
        ((apiservice(True, version="v1beta2"), apiservice(False)), "monitoring/prometheus-adapter"),
    ],
)
def test_who_serves_the_metrics_is_said_where_there_are_none(group: Any, said_too: str) -> None:
    wanted = world.wanted(autoscaling={"maxReplicas": 3})
    deployment = world.rendered(wanted, world.seen())["Deployment"] | {"status": {"availableReplicas": 1}}
    seen = world.seen(scaler(AbleToScale="True", ScalingActive="False"), deployment)
    _, _, message = said(judged(wanted, dataclasses.replace(seen, metrics_group=group)), "AutoscalingActive")
    assert message.startswith("replicas hold: in its words")
    assert said_too in message
    assert said_too or message == "replicas hold: in its words"


def test_two_autoscalers_on_one_deployment_are_told_apart_by_kubernetes_and_the_move_is_ours() -> None:
    wanted = world.wanted(autoscaling={"maxReplicas": 3})
    deployment = world.rendered(wanted, world.seen())["Deployment"] | {"status": {"availableReplicas": 1}}
    both = scaler(AbleToScale="True", ScalingActive="False")
    both["status"]["conditions"][1] |= {"reason": "AmbiguousSelector", "message": "multiple HPAs: [a b]"}
    found = said(judged(wanted, world.seen(both, deployment)), "AutoscalingActive")
    assert found[1] == "AmbiguousSelector"
    assert found[2] == (
        "replicas hold: multiple HPAs: [a b]; delete the other one, or keep it and set "
        "spec.autoscaling.backend: External"
    )


def test_an_autoscaler_that_undoes_our_replicas_is_named_with_the_move() -> None:
    wanted = world.wanted(replicas=2)
    seen = dataclasses.replace(world.seen(), rivals=('ScaledObject "theirs"',))
    found = said(judged(wanted, seen), "AutoscalingActive")
    assert found[:2] == ("False", "ReplicasContested")
    assert found[2] == (
        'ScaledObject "theirs" also sets the replicas of Deployment llama, and spec.replicas is 2: the two undo '
        "each other; remove spec.replicas to leave them to it, or delete it"
    )
