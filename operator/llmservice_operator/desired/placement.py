"""How many more pods of a template the nodes would take, by what the scheduler looks at first.

An estimate on the safe side: node names, selectors, required node affinity, taints and every requested resource
count; affinity to other pods, volumes and topology do not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from llmservice_operator.api import quantities
from llmservice_operator.api.seen import Object

Amounts = dict[str, Fraction]


def room(nodes: Iterable[Object], pods: Iterable[Object], template: Mapping[str, Any]) -> int:
    """Pods of ``template`` (a pod's spec) that would fit beside ``pods``, which are everybody's."""
    used: dict[str, Amounts] = {}
    for pod in pods:
        name = pod.get("spec", {}).get("nodeName")
        if name and pod.get("status", {}).get("phase") not in ("Succeeded", "Failed"):
            _add(used.setdefault(name, {}), requests(pod["spec"]))
    need = requests(template)
    return sum(
        _fits(node, used.get(node["metadata"]["name"], {}), need) for node in nodes if admits(node, template)
    )


def requests(pod: Mapping[str, Any]) -> Amounts:
    """What a pod asks of its node: the sum of its containers, or an init container's more."""
    total: Amounts = {}
    for container in pod.get("containers") or ():
        _add(total, _of(container))
    for container in pod.get("initContainers") or ():
        for name, amount in _of(container).items():
            total[name] = max(total.get(name, Fraction(0)), amount)
    return total


def admits(node: Object, pod: Mapping[str, Any]) -> bool:
    """Would the node have such a pod at all, room or not?"""
    spec, labels = node.get("spec", {}), node["metadata"].get("labels") or {}
    ready = {found["type"]: found["status"] for found in node.get("status", {}).get("conditions") or ()}
    if spec.get("unschedulable") or ready.get("Ready", "True") != "True":
        return False
    if any(labels.get(key) != value for key, value in (pod.get("nodeSelector") or {}).items()):
        return False
    tolerations = pod.get("tolerations") or ()
    for taint in spec.get("taints") or ():
        if taint.get("effect") != "PreferNoSchedule" and not any(
            _tolerates(one, taint) for one in tolerations
        ):
            return False
    affinity = (pod.get("affinity") or {}).get("nodeAffinity") or {}
    terms = (affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}).get("nodeSelectorTerms")
    return terms is None or any(_matches(term, node, labels) for term in terms)


def _fits(node: Object, used: Amounts, need: Amounts) -> int:
    allocatable = node.get("status", {}).get("allocatable") or {}
    counts = []
    for name, amount in need.items():
        if amount > 0:
            free = quantities.parse(allocatable.get(name, 0)) - used.get(name, Fraction(0))
            counts.append(max(0, int(free // amount)))
    return min(counts, default=1)


def _of(container: Mapping[str, Any]) -> Amounts:
    given = container.get("resources") or {}
    limits, asked = given.get("limits") or {}, given.get("requests") or {}
    return {name: quantities.parse(amount) for name, amount in {**limits, **asked}.items()}


def _add(total: Amounts, more: Amounts) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, Fraction(0)) + amount


def _tolerates(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    if toleration.get("effect") not in (None, "", taint.get("effect")):
        return False
    if not toleration.get("key"):
        return toleration.get("operator") == "Exists"
    if toleration["key"] != taint.get("key"):
        return False
    same = (toleration.get("value") or "") == (taint.get("value") or "")
    return toleration.get("operator") == "Exists" or same


def _matches(term: Mapping[str, Any], node: Object, labels: Mapping[str, str]) -> bool:
    fields = {"metadata.name": str(node["metadata"]["name"])}
    return all(_holds(one, labels) for one in term.get("matchExpressions") or ()) and all(
        _holds(one, fields) for one in term.get("matchFields") or ()
    )


def _holds(expression: Mapping[str, Any], values: Mapping[str, str]) -> bool:
    value, listed = values.get(str(expression["key"])), expression.get("values") or ()
    match expression.get("operator"):
        case "In":
            return value in listed
        case "NotIn":
            return value not in listed
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt" as order:
            return _ordered(value, listed, greater=order == "Gt")
    return False


def _ordered(value: str | None, listed: Sequence[str], *, greater: bool) -> bool:
    try:
        one, other = int(value or ""), int(listed[0])
    except (ValueError, IndexError):
        return False
    return one > other if greater else one < other
