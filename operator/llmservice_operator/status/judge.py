"""Status as a whole: equal input gives an equal status, so that nothing is written at rest.

What is absent from the result is absent from the status: the writer replaces it as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from llmservice_operator.api import conditions, names
from llmservice_operator.api.conditions import Conditions
from llmservice_operator.api.errors import InvalidSpec
from llmservice_operator.api.planned import Plan
from llmservice_operator.api.seen import Applied, Seen
from llmservice_operator.api.spec import LLMService
from llmservice_operator.status import figures, verdict, view
from llmservice_operator.status.failures import Failure
from llmservice_operator.status.preparation import Stage
from llmservice_operator.status.verdict import State, Verdict
from llmservice_operator.status.view import Counts, View

_KEPT = ("endpoint", "model", "cache", "memory", "startup", "rollout", "lastFailure")
LONGEST_FAILURE = 2048  # characters of lastFailure.message


def judge(wanted: LLMService, planned: Plan, seen: Seen, applied: Applied, now: datetime) -> dict[str, Any]:
    """The status of an object whose spec is served. ``seen.status`` is the one that it has now."""
    looked, previous = view.look(wanted, planned, seen, applied), seen.status
    found = Conditions(wanted.generation, now, previous.get("conditions") or ())
    _state(found, verdict.decide(looked))
    for kind, stage in _stages(looked):
        if stage is not None:
            found.set(kind, stage.done, stage.reason, stage.message)
    if looked.replicas or looked.counts.replicas:
        _availability(found, looked.counts)
    status = {
        "observedGeneration": wanted.generation,
        "conditions": found.as_list(),
        **_figures(wanted.name, looked.counts),
        "endpoint": {"url": _url(wanted), "models": list(wanted.served_names)},
        "model": figures.model(planned),
        "cache": figures.cache(wanted, planned, seen),
        "memory": figures.memory(wanted, planned, seen),
        "startup": figures.startup(wanted, planned, seen),
        "rollout": {"strategy": planned.rollout.strategy, "reason": planned.rollout.reason},
        "lastFailure": _last_failure(looked.failure, now, previous.get("lastFailure")),
    }
    return {key: value for key, value in status.items() if value is not None}


def _stages(looked: View) -> tuple[tuple[str, Stage | None], ...]:
    return (
        (conditions.MODEL_RESOLVED, looked.model),
        (conditions.CACHE_READY, looked.cache),
        (conditions.MEMORY_FITS, looked.memory),
        (conditions.AUTOSCALING_ACTIVE, looked.autoscaling),
    )


def invalid(
    body: Mapping[str, Any],
    error: InvalidSpec,
    previous: Mapping[str, Any],
    now: datetime,
    seen: Seen | None = None,
) -> dict[str, Any]:
    """The status of an object whose spec cannot be served. What runs is left alone; ``seen`` counts it."""
    metadata = body["metadata"]
    found = Conditions(metadata["generation"], now, previous.get("conditions") or ())
    deployment = (seen or Seen()).child("Deployment", names.child(metadata["name"]))
    counts = view.counts(deployment)
    text = f"{error.path}: {error.message}" + ("; what runs goes on" if deployment is not None else "")
    _state(found, Verdict(State.STALLED, "InvalidSpec", text))
    if deployment is not None:
        _availability(found, counts)
    kept = {key: previous[key] for key in _KEPT if key in previous}
    return {
        "observedGeneration": metadata["generation"],
        "conditions": found.as_list(),
        **_figures(metadata["name"], counts),
        **kept,
    }


def _state(found: Conditions, decided: Verdict) -> None:
    found.set(conditions.READY, decided.state is State.READY, decided.reason, decided.message)
    if decided.state is State.RECONCILING:
        found.set(conditions.RECONCILING, True, decided.reason, decided.message)
    if decided.state is State.STALLED:
        found.set(conditions.STALLED, True, decided.reason, decided.message)


def _availability(found: Conditions, counts: Counts) -> None:
    if counts.available:
        found.set(conditions.AVAILABLE, True, "ReplicaAvailable", "requests are answered")
    else:
        found.set(conditions.AVAILABLE, False, "NoReplicaAvailable", "no replica answers requests")


def _figures(name: str, counts: Counts) -> dict[str, Any]:
    return {
        "replicas": counts.replicas,
        "readyReplicas": counts.ready,
        "updatedReplicas": counts.updated,
        "availableReplicas": counts.available,
        "selector": names.selector_text(name),
    }


def _url(wanted: LLMService) -> str:
    return f"http://{wanted.service_name}.{wanted.namespace}.svc:{wanted.spec.expose.service.port}/v1"


def _last_failure(
    failure: Failure | None, now: datetime, previous: Mapping[str, Any] | None
) -> dict[str, Any] | None:
    """The newest failure. It stays when the cause has gone: conditions say how things are, this what happened."""
    if failure is None:
        return dict(previous) if previous else None
    told: dict[str, Any] = {
        "pod": failure.pod,
        "code": failure.reason,
        "message": conditions.cut(failure.message, LONGEST_FAILURE),
        "exitCode": failure.exit_code,
        "requiredBytes": failure.required_bytes,
        "availableBytes": failure.available_bytes,
    }
    told = {key: value for key, value in told.items() if value is not None}
    before = {key: value for key, value in (previous or {}).items() if key != "time"}
    kept = (previous or {}).get("time") if before == told else None
    return told | {"time": failure.time or kept or conditions.timestamp(now)}
