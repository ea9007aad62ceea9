"""Does the autoscaler work? In the words of the HorizontalPodAutoscaler."""

from __future__ import annotations

from llmservice_operator.api import conditions, names
from llmservice_operator.api.planned import Plan
from llmservice_operator.api.seen import Object, Seen
from llmservice_operator.api.spec import LLMService
from llmservice_operator.status.preparation import Stage

_KINDS = {"HPA": "HorizontalPodAutoscaler", "KEDA": "ScaledObject"}


def stage(wanted: LLMService, planned: Plan, seen: Seen) -> Stage | None:
    """None where nothing is scaled, or by somebody else."""
    given = wanted.spec.autoscaling
    if given is None or given.backend == "External" or wanted.spec.suspend:
        return None
    kind = _KINDS[given.backend]
    if kind in planned.lacking:
        text = f"the cluster has no kind {kind}: install KEDA, or use another spec.autoscaling.backend"
        return Stage(False, "KindNotServed", text)
    scaler = seen.child(kind, names.child(wanted.name))
    if scaler is None:
        return Stage(False, "AutoscalerPending", f"the {kind} is to be made")
    deployment = seen.child("Deployment", names.child(wanted.name)) or {}
    if given.backend == "HPA" and not deployment.get("status", {}).get("availableReplicas"):
        return Stage(False, "AutoscalerPending", "its figures come from replicas, and none answers yet")
    return _of_hpa(scaler) if given.backend == "HPA" else _of_scaled_object(scaler)


def _of_hpa(scaler: Object) -> Stage:
    able, active, limited = (
        conditions.of(scaler, kind) for kind in ("AbleToScale", "ScalingActive", "ScalingLimited")
    )
    for found in (able, active):
        if found.get("status") == "False":
            return Stage(False, found.get("reason", "Unknown"), f"replicas hold: {found.get('message', '')}")
    if not active:
        return Stage(False, "AutoscalerPending", "the autoscaler has not looked yet")
    text = "by the metric"
    if limited.get("status") == "True":
        text = f"limited: {limited.get('message', '')}"
    return Stage(True, active.get("reason", "Active"), text)


def _of_scaled_object(scaler: Object) -> Stage:
    ready = conditions.of(scaler, "Ready")
    done = ready.get("status") == "True"
    return Stage(
        done, ready.get("reason") or "AutoscalerPending", ready.get("message") or "KEDA has not looked yet"
    )
