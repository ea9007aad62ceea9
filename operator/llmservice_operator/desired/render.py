"""Spec and plan to child objects, in the order in which they are applied."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from llmservice_planner.startup import StartupBudget

from llmservice_operator.api import attempts, durations, names, revision
from llmservice_operator.api.defaults import Defaults
from llmservice_operator.api.planned import Plan, Rollout
from llmservice_operator.api.seen import Object, Seen
from llmservice_operator.api.spec import LLMService
from llmservice_operator.desired import copying, extras, lookup, metadata, plan, revisions, rollout, template
from llmservice_operator.desired.revisions import Revision

PULL_SECONDS = 600  # room for the image and the scheduler in the progress deadline


@dataclass(frozen=True, slots=True)
class Rendered:
    children: tuple[dict[str, Any], ...]
    unwanted: tuple[tuple[str, str], ...]  # (kind, name) of managed children that should go
    due_in: float | None = None  # seconds until it should be rendered again


def render(
    wanted: LLMService, planned: Plan, seen: Seen, defaults: Defaults, operator_namespace: str = ""
) -> Rendered:
    """The lookup's job, ControllerRevisions, Deployment, Service and the extras.

    A new template is made once the model is known, and the Deployment gets it once the copy is complete. Until then
    what runs goes on with the template that it has, and where nothing runs there is no Deployment yet.
    """
    frozen = revisions.of_spec(wanted, seen)
    if frozen is None and _may_freeze(wanted, planned, seen):
        frozen = _new_revision(wanted, planned, seen, defaults)
    serving = revisions.serving(wanted, seen)
    deployed = frozen if frozen is not None and _may_deploy(wanted, planned, seen, frozen) else serving
    kept = {one.hash: one for one in (frozen, deployed) if one is not None}
    children = [
        *((lookup.job(wanted, planned.lookup, defaults),) if planned.lookup is not None else ()),
        *(_revision(wanted, one) for one in kept.values()),
        *((_deployment(wanted, planned.rollout, deployed),) if deployed is not None else ()),
        _service(wanted),
        *extras.children(wanted, seen.served, operator_namespace, defaults.hub_endpoint),
    ]
    finished = tuple(_with_hash(child) for child in children)
    surplus = attempts.surplus(lookup.jobs_of(seen), [planned.lookup])
    return Rendered(
        finished,
        (*_unwanted(finished, seen), *(("Job", name) for name in surplus)),
        planned.lookup.due_in if planned.lookup is not None else None,
    )


def render_cache(rendered: copying.Rendered) -> Rendered:
    """A cache's claim and jobs, as they are applied."""
    return Rendered(
        tuple(_with_hash(child) for child in rendered.children), rendered.unwanted, rendered.due_in
    )


def _may_freeze(wanted: LLMService, planned: Plan, seen: Seen) -> bool:
    if wanted.cache is not None and planned.model is None:
        return False
    mine = wanted.cache is None or wanted.cache.mode == "Existing"
    return not mine or wanted.claim_name in seen.claims


def _may_deploy(wanted: LLMService, planned: Plan, seen: Seen, frozen: Revision) -> bool:
    """Is it time for this template? What runs already is never held back."""
    deployment = seen.child("Deployment", names.child(wanted.name))
    if deployment is not None and revisions.hash_label(deployment) == frozen.hash:
        return True
    return not planned.forbids_pods(wanted) and planned.copied(wanted)


def _unwanted(rendered: Iterable[Object], seen: Seen) -> tuple[tuple[str, str], ...]:
    """A Service under an old name, an autoscaler that is switched off, old revisions.

    The Deployment never goes: it is left out of the render only to leave it alone. Jobs go by their turns.
    """
    wanted = frozenset((child["kind"], child["metadata"]["name"]) for child in rendered)
    others = [
        key
        for key in seen.children
        if key not in wanted and key[0] not in {"Deployment", "Job", revisions.KIND}
    ]
    surplus = revisions.surplus(frozenset(name for kind, name in wanted if kind == revisions.KIND), seen)
    return (*sorted(others), *((revisions.KIND, name) for name in surplus))


def _new_revision(wanted: LLMService, planned: Plan, seen: Seen, defaults: Defaults) -> Revision:
    spec_hash = revision.hash_of(wanted)
    model = planned.model if wanted.cache is not None else None  # what is on a claim may change under us
    made, budget = template.fresh(wanted, planned.budget, model, defaults, spec_hash), planned.budget
    allowed = template.startup_seconds(made)
    if allowed is not None and abs(allowed - budget.deadline_seconds) >= template.STARTUP_PERIOD_SECONDS:
        budget = StartupBudget(allowed, "Spec")  # spec.template has its own probe
    return Revision(
        hash=spec_hash,
        number=revisions.next_number(seen),
        template=made,
        budget=budget,
        model=model,
        kind_of_start=plan.kind_of_start(wanted),
    )


def _revision(wanted: LLMService, frozen: Revision) -> dict[str, Any]:
    made = metadata.of(wanted, revisions.name(wanted, frozen.hash))
    made["labels"][names.REVISION_LABEL] = frozen.hash
    return {
        "apiVersion": "apps/v1",
        "kind": revisions.KIND,
        "metadata": made,
        "revision": frozen.number,
        "data": frozen.data(),
    }


def _deployment(wanted: LLMService, decided: Rollout, frozen: Revision) -> dict[str, Any]:
    grace = template.grace_seconds(frozen.template)
    ready = durations.seconds(wanted.spec.rollout.min_ready)
    spec: dict[str, Any] = {
        "progressDeadlineSeconds": frozen.budget.deadline_seconds + grace + ready + PULL_SECONDS,
        "revisionHistoryLimit": revisions.KEPT,
        "selector": {"matchLabels": names.selector(wanted.name)},
        "strategy": _strategy(wanted, decided),
        "template": dict(frozen.template),
    }
    if not wanted.prefetches and frozen.model is not None:  # the pod copies before its engine starts
        spec["progressDeadlineSeconds"] += copying.seconds(wanted, frozen.model)
    if ready:
        spec["minReadySeconds"] = ready
    if wanted.replicas is not None:
        spec["replicas"] = wanted.replicas
    made = metadata.of(wanted, names.child(wanted.name))
    if frozen.hash == revision.hash_of(wanted) and (kept := rollout.annotation(wanted, decided)):
        made["annotations"] = kept
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": made,
        "spec": spec,
    }


def _strategy(wanted: LLMService, decided: Rollout) -> dict[str, Any]:
    if decided.strategy == "Recreate":
        return {"type": "Recreate"}
    given, surges = wanted.spec.rollout, decided.strategy == "Surge"
    surge: int | str = int(surges) if given.max_surge is None else given.max_surge
    unavailable: int | str = int(not surges) if given.max_unavailable is None else given.max_unavailable
    return {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}


def _service(wanted: LLMService) -> dict[str, Any]:
    exposed = wanted.spec.expose.service
    made = metadata.of(wanted, wanted.service_name)
    made["labels"] = exposed.labels | made["labels"]
    if exposed.annotations:
        made["annotations"] = dict(exposed.annotations)
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": made,
        "spec": {
            "ports": [
                {
                    "name": names.HTTP_PORT,
                    "port": exposed.port,
                    "protocol": "TCP",
                    "targetPort": names.HTTP_PORT,
                }
            ],
            "selector": names.selector(wanted.name),
            "type": exposed.type,
        },
    }


def _with_hash(child: dict[str, Any]) -> dict[str, Any]:
    text = json.dumps(child, sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    annotations = child["metadata"].get("annotations", {}) | {names.RENDER_HASH: digest}
    return {**child, "metadata": {**child["metadata"], "annotations": annotations}}
