"""What stands beside the Deployment: its Service, its autoscaler, its disruption budget; and what stays as it is."""

from __future__ import annotations

import re
from typing import Any

from llmservice_operator.api import contract, names, quantities
from llmservice_operator.cli.people.conversion.notes import Fate, cleaned, named, own_labels
from llmservice_operator.cli.people.conversion.workload import Body, Workload

_OWN_NOW = {
    "PodMonitor": "the operator makes one where the kind exists (spec.monitoring)",
    "ServiceMonitor": "the operator makes a PodMonitor where the kind exists (spec.monitoring)",
    "NetworkPolicy": "spec.networkPolicy makes one; yours goes on selecting pods by their labels",
}
_SERVERS_OWN = (
    "clusterIP",
    "clusterIPs",
    "ipFamilies",
    "ipFamilyPolicy",
    "internalTrafficPolicy",
    "healthCheckNodePort",
)


def rest(work: Workload) -> None:
    """Say of everything that nobody has taken that it stays."""
    told = {note.at for note in work.notes.all if note.fate is Fate.KEPT}
    for body in work.others:
        if named(body) in told:
            continue
        if body["kind"] in _OWN_NOW:
            work.notes.replaced(named(body), _OWN_NOW[body["kind"]])
        else:
            work.notes.kept(named(body), "is not part of the conversion")


# --- Service -------------------------------------------------------------------------------------------------
def service(work: Workload, name: str) -> Body:
    """``spec.expose.service`` from the first Service that selects the pods and has an address."""
    found = [
        body for body in _of_pods(work, "Service") if (body.get("spec") or {}).get("clusterIP") != "None"
    ]
    if not found:
        return {}
    body = found[0]
    work.others.remove(body)
    metadata, spec, at = cleaned(body.get("metadata") or {}), dict(body.get("spec") or {}), named(body)
    made: Body = {} if metadata.get("name") == name else {"name": str(metadata.get("name"))}
    kind = spec.pop("type", None)
    if kind not in (None, "ClusterIP"):
        made["type"] = kind
    ports = list(spec.pop("ports", None) or ())
    port = next((one for one in ports if _leads_to(work, one)), ports[0] if ports else None)
    if port is not None:
        made["port"] = port.pop("port", contract.PORT)
        if port.get("name") not in (None, "http"):
            work.notes.replaced(f"{at} spec.ports[{port['name']}].name", "the Service's port is named http")
        work.notes.left(
            f"{at} spec.ports", {key: port[key] for key in ("nodePort", "appProtocol") if key in port}
        )
        for other in ports:
            if other is not port:
                label = other.get("name", other.get("port"))
                work.notes.lost(
                    f"{at} spec.ports[{label}]", "one port only: a second Service of yours takes it"
                )
    labels = own_labels(metadata.get("labels") or {}, f"{at} metadata.labels", work.notes)
    made |= {"labels": labels} if labels else {}
    if metadata.get("annotations"):
        made["annotations"] = metadata["annotations"]
    spec.pop("selector", None)
    if spec.get("sessionAffinity") == "None":
        del spec["sessionAffinity"]
    work.notes.left(f"{at} spec", {key: value for key, value in spec.items() if key not in _SERVERS_OWN})
    return {"service": made} if made else {}


def _leads_to(work: Workload, port: Body) -> bool:
    target = port.get("targetPort", port.get("port"))
    by_name = {one.get("name"): one.get("containerPort") for one in work.engine.get("ports") or ()}
    return by_name.get(target, target) == work.port


def _of_pods(work: Workload, kind: str) -> list[Body]:
    """Objects of a kind whose selector the pods have."""
    found = []
    for body in work.others:
        selector = (body.get("spec") or {}).get("selector") or {}
        selector = selector.get("matchLabels", selector)
        if body["kind"] == kind and selector and selector.items() <= work.labels.items():
            found.append(body)
    return found


# --- replicas ------------------------------------------------------------------------------------------------
def autoscaling(work: Workload) -> Body | None:
    """``spec.autoscaling`` from a HorizontalPodAutoscaler or a ScaledObject on the Deployment."""
    for body in work.others:
        target = (body.get("spec") or {}).get("scaleTargetRef") or {}
        ours = (
            target.get("name") == work.metadata["name"] and target.get("kind", "Deployment") == "Deployment"
        )
        if ours and body["kind"] in ("HorizontalPodAutoscaler", "ScaledObject"):
            work.others.remove(body)
            spec = dict(body["spec"])
            del spec["scaleTargetRef"]
            return _horizontal(work, body, spec) if body["kind"][0] == "H" else _keda(work, body, spec)
    return None


def _horizontal(work: Workload, body: Body, spec: Body) -> Body:
    at = named(body)
    least, most = int(spec.pop("minReplicas", 1) or 0), int(spec.pop("maxReplicas", 1))
    if least == 0:
        work.notes.replaced(f"{at} spec.minReplicas", "0 needs KEDA or another scaler of yours: 1 now")
    made: Body = {"minReplicas": max(1, least), "maxReplicas": max(1, most)}
    metrics = (
        [{"type": "Resource", "resource": {"name": "cpu"}}]
        if "targetCPUUtilizationPercentage" in spec
        else []
    )
    spec.pop("targetCPUUtilizationPercentage", None)
    for metric in [*metrics, *(spec.pop("metrics", None) or ())]:
        name, value = _metric(metric)
        ours = _meaning(name)
        if ours is None or "metric" in made:
            why = "a second metric" if ours is not None else "says little of a model server's load"
            work.notes.lost(
                f"{at} spec.metrics[{name}]", f"{why}; spec.autoscaling.metric has three to choose from"
            )
            continue
        made["metric"] = ours
        if value is not None:
            percent = ours == "KVCachePercent" and value <= 1
            made["target"] = max(1, round(value * 100 if percent else value))
        if ours == "InFlightRequests":
            work.notes.replaced(f"{at} spec.metrics[{name}]", "InFlightRequests counts waiting requests too")
    if spec.get("behavior"):
        made["behavior"] = _behavior(work, at, spec.pop("behavior"))
    work.notes.left(f"{at} spec", spec)
    return made


def _metric(metric: Body) -> tuple[str, float | None]:
    """Name and target of one metric."""
    part = next((value for key, value in metric.items() if key != "type" and isinstance(value, dict)), {})
    name = str((part.get("metric") or {}).get("name") or part.get("name") or metric.get("type"))
    target = part.get("target") or {}
    value = target.get("averageValue", target.get("value"))
    return name, float(quantities.parse(value)) if value is not None else None


def _meaning(name: str) -> str | None:
    if re.search(r"waiting|queue", name):
        return "WaitingRequests"
    if re.search(r"running|in_flight|inflight|concurren", name):
        return "InFlightRequests"
    return "KVCachePercent" if re.search(r"cache_usage", name) else None


def _behavior(work: Workload, at: str, given: Body) -> Body:
    made: Body = {}
    for direction, rules in given.items():
        known = {"stabilizationWindowSeconds", "selectPolicy", "policies"}
        made[direction] = {key: rules[key] for key in rules if key in known}
        work.notes.left(f"{at} spec.behavior.{direction}", {key: rules[key] for key in rules.keys() - known})
    return made


def _keda(work: Workload, body: Body, spec: Body) -> Body:
    made: Body = {
        "minReplicas": int(spec.pop("minReplicaCount", 0) or 0),
        "maxReplicas": int(spec.pop("maxReplicaCount", 100)),
        "backend": "KEDA",
        "keda": {"triggers": spec.pop("triggers", [])},
    }
    work.notes.left(f"{named(body)} spec", spec)
    return made


def replicas(work: Workload, *, scaled: bool) -> int | None:
    given = work.spec.pop("replicas", None)
    if not scaled:
        return int(given) if given is not None else 1
    if given is not None:
        work.notes.replaced(f"{work.at} spec.replicas", "the autoscaler's")
    return None


def availability(work: Workload) -> Body:
    """``spec.availability`` from a PodDisruptionBudget; the operator makes one in any case."""
    found = _of_pods(work, "PodDisruptionBudget")
    if not found:
        return {}
    work.others.remove(found[0])
    spec = dict(found[0]["spec"])
    spec.pop("selector", None)
    most = spec.pop("maxUnavailable", None)
    work.notes.left(f"{named(found[0])} spec", spec)
    return {"maxUnavailable": most} if most is not None else {}


def rollout(work: Workload) -> Body:
    """``spec.rollout`` without the drain; what else the Deployment says of its replicas is listed."""
    strategy = work.spec.pop("strategy", None) or {}
    figures = dict(strategy.get("rollingUpdate") or {})
    made: Body = {}
    if strategy.get("type") == "Recreate":
        made["strategy"] = "Recreate"
    elif figures:
        surge, unavailable = figures.get("maxSurge", "25%"), figures.get("maxUnavailable", "25%")
        if str(surge) in ("0", "0%") and unavailable == 1:
            made["strategy"] = "Recycle"
        elif (surge, unavailable) != ("25%", "25%"):  # Kubernetes' default: nobody's choice
            made = {"strategy": "Surge", "maxSurge": surge, "maxUnavailable": unavailable}
    ready = work.spec.pop("minReadySeconds", None)
    if ready:
        made["minReady"] = f"{int(ready)}s"
    for name, by_itself in (
        ("progressDeadlineSeconds", "follows the start-up deadline"),
        ("revisionHistoryLimit", "three revisions are kept"),
    ):
        if work.spec.pop(name, None) is not None:
            work.notes.replaced(f"{work.at} spec.{name}", by_itself)
    work.spec.pop("selector", None)
    work.notes.left(f"{work.at} spec", work.spec)
    return made


def metadata(work: Workload, name: str) -> dict[str, Any]:
    made: Body = {"name": name}
    for key in ("namespace", "labels", "annotations"):
        made[key] = work.metadata.get(key)
    for key in work.metadata.keys() - {"name", "namespace", "labels", "annotations"}:
        work.notes.left(f"{work.at} metadata.{key}", work.metadata[key])
    labels = made.get("labels")
    if labels:
        made["labels"] = {key: value for key, value in labels.items() if key != names.MANAGED_BY_LABEL}
    return {key: value for key, value in made.items() if value}
