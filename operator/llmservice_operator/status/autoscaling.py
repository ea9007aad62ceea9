"""Does the autoscaler work? In the words of the HorizontalPodAutoscaler, with the next move where we know it."""

from __future__ import annotations

from llmservice_operator.api import conditions, contract, names
from llmservice_operator.api.planned import Plan
from llmservice_operator.api.seen import Applied, Object, Seen
from llmservice_operator.api.spec import LLMService
from llmservice_operator.status.preparation import Stage

_KINDS = {"HPA": "HorizontalPodAutoscaler", "KEDA": "ScaledObject"}
_KEEP_YOURS = "delete the other one, or keep it and set spec.autoscaling.backend: External"
_GUIDE = "docs/guides/autoscaling.md"


def stage(wanted: LLMService, planned: Plan, seen: Seen, applied: Applied) -> Stage | None:
    """None where nothing is scaled, or by somebody else whom nobody undoes."""
    given = wanted.spec.autoscaling
    if wanted.spec.suspend:
        return None
    if given is None and seen.rivals:
        return _contested(wanted, seen)
    if given is None or given.backend == "External":
        return None
    kind = _KINDS[given.backend]
    if kind in planned.lacking:
        text = f"the cluster has no kind {kind}: install KEDA, or use another spec.autoscaling.backend"
        return Stage(False, "KindNotServed", text)
    for child in applied.refused:
        if child.kind == kind and child.status_code == 409:
            return Stage(False, "ChildConflict", f"{child.message}, {_KEEP_YOURS}")
    scaler = seen.child(kind, names.child(wanted.name))
    if scaler is None:
        return Stage(False, "AutoscalerPending", f"the {kind} is to be made")
    if given.backend == "KEDA":
        return _of_scaled_object(scaler)
    if not _answers(wanted, seen):
        return Stage(False, "AutoscalerPending", "its figures come from replicas, and none answers yet")
    return _of_hpa(wanted, scaler, seen)


def lacks_metric(wanted: LLMService, seen: Seen) -> bool:
    """Does our HorizontalPodAutoscaler get no figures, though there are replicas to tell some?"""
    scaler = seen.child(_KINDS["HPA"], names.child(wanted.name))
    return (
        scaler is not None
        and _answers(wanted, seen)
        and conditions.of(scaler, "ScalingActive").get("reason") == "FailedGetObjectMetric"
    )


def _answers(wanted: LLMService, seen: Seen) -> bool:
    deployment = seen.child("Deployment", names.child(wanted.name)) or {}
    return bool((deployment.get("status") or {}).get("availableReplicas"))


def _contested(wanted: LLMService, seen: Seen) -> Stage:
    who = " and ".join(seen.rivals)
    text = (
        f"{who} also sets the replicas of Deployment {names.child(wanted.name)}, and spec.replicas is "
        f"{wanted.replicas}: the two undo each other; remove spec.replicas to leave them to it, or delete it"
    )
    return Stage(False, conditions.CONTESTED, text)


def _of_hpa(wanted: LLMService, scaler: Object, seen: Seen) -> Stage:
    able, active, limited = (
        conditions.of(scaler, kind) for kind in ("AbleToScale", "ScalingActive", "ScalingLimited")
    )
    for found in (able, active):
        if found.get("status") == "False":
            reason = found.get("reason", "Unknown")
            move = _KEEP_YOURS if reason == "AmbiguousSelector" else _of_group(wanted, seen)
            said = f"replicas hold: {found.get('message', '')}"
            return Stage(False, reason, f"{said}; {move}" if move else said)
    if not active:
        return Stage(False, "AutoscalerPending", "the autoscaler has not looked yet")
    text = "by the metric"
    if limited.get("status") == "True":
        text = f"limited: {limited.get('message', '')}"
    return Stage(True, active.get("reason", "Active"), text)


def _of_group(wanted: LLMService, seen: Seen) -> str:
    """Who serves the metrics, where that is why there are none; else nothing."""
    assert wanted.spec.autoscaling is not None, "or there would be no autoscaler"
    if seen.metrics_group is None:
        return ""
    if not seen.metrics_group:
        return f"nobody serves {contract.METRICS_GROUP}: switch the chart's metricsApi.enabled on"
    for service in seen.metrics_group:
        labels = service["metadata"].get("labels") or {}
        if labels.get(names.MANAGED_BY_LABEL) != names.MANAGER:
            metric = contract.SCALING_METRICS[wanted.spec.autoscaling.metric]
            return (
                f"{contract.METRICS_GROUP} is served by another provider, {_provider(service)}: add the rule for "
                f"{metric} there ({_GUIDE}, Beside another provider), or set spec.autoscaling.backend to KEDA"
            )
    available = conditions.of(seen.metrics_group[0], "Available")
    if available.get("status") == "False":
        return f"our metrics server does not answer the API server: {available.get('message', '')}"
    return ""


def _provider(service: Object) -> str:
    behind = service["spec"].get("service") or {}
    return f"{behind.get('namespace')}/{behind.get('name')} (APIService {service['metadata']['name']})"


def _of_scaled_object(scaler: Object) -> Stage:
    ready = conditions.of(scaler, "Ready")
    done = ready.get("status") == "True"
    return Stage(
        done, ready.get("reason") or "AutoscalerPending", ready.get("message") or "KEDA has not looked yet"
    )
