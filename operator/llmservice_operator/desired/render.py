"""Spec and budget to child objects, in the order in which they are applied."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any

from llmservice_planner.startup import StartupBudget

from llmservice_operator.api import names, revision
from llmservice_operator.api.defaults import Defaults
from llmservice_operator.api.seen import Object, Seen
from llmservice_operator.api.spec import LLMService
from llmservice_operator.desired import revisions, template
from llmservice_operator.desired.revisions import Revision

PULL_SECONDS = 600  # room for the image and the scheduler in the progress deadline


def render(
    wanted: LLMService, budget: StartupBudget, seen: Seen, defaults: Defaults
) -> tuple[dict[str, Any], ...]:
    """ControllerRevision, Deployment, Service.

    While the claim is missing no new template is made: what runs goes on with the template that it has, and
    where nothing runs only the Service is rendered.
    """
    frozen = revisions.of_spec(wanted, seen)
    if frozen is None and wanted.claim_name in seen.claims:
        frozen = _new_revision(wanted, budget, seen, defaults)
    if frozen is None:
        frozen = revisions.serving(wanted, seen)
    workload = () if frozen is None else (_revision(wanted, frozen), _deployment(wanted, frozen))
    return tuple(_with_hash(child) for child in (*workload, _service(wanted)))


def unwanted(rendered: Iterable[Object], seen: Seen) -> tuple[tuple[str, str], ...]:
    """(kind, name) of the managed children that should go: a Service under an old name, old revisions.

    The Deployment never goes: it is left out of the render only to leave it alone.
    """
    wanted = frozenset((child["kind"], child["metadata"]["name"]) for child in rendered)
    others = [
        key for key in seen.children if key not in wanted and key[0] not in {"Deployment", revisions.KIND}
    ]
    surplus = revisions.surplus(frozenset(name for kind, name in wanted if kind == revisions.KIND), seen)
    return (*sorted(others), *((revisions.KIND, name) for name in surplus))


def _new_revision(wanted: LLMService, budget: StartupBudget, seen: Seen, defaults: Defaults) -> Revision:
    spec_hash = revision.hash_of(wanted)
    made = template.fresh(wanted, budget, defaults, spec_hash)
    return Revision(spec_hash, revisions.next_number(seen), made, budget)


def _revision(wanted: LLMService, frozen: Revision) -> dict[str, Any]:
    metadata = _metadata(wanted, revisions.name(wanted, frozen.hash))
    metadata["labels"][names.REVISION_LABEL] = frozen.hash
    return {
        "apiVersion": "apps/v1",
        "kind": revisions.KIND,
        "metadata": metadata,
        "revision": frozen.number,
        "data": frozen.data(),
    }


def _deployment(wanted: LLMService, frozen: Revision) -> dict[str, Any]:
    grace = template.grace_seconds(frozen.template)
    spec: dict[str, Any] = {
        "progressDeadlineSeconds": frozen.budget.deadline_seconds + grace + PULL_SECONDS,
        "revisionHistoryLimit": revisions.KEPT,
        "selector": {"matchLabels": names.selector(wanted.name)},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": _rolling_update(wanted)},
        "template": dict(frozen.template),
    }
    if wanted.replicas is not None:
        spec["replicas"] = wanted.replicas
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _metadata(wanted, names.child(wanted.name)),
        "spec": spec,
    }


def _rolling_update(wanted: LLMService) -> dict[str, int]:
    """In place where replicas hold devices, for no spare one may exist; with a spare pod where they do not."""
    if wanted.spec.accelerator.count:
        return {"maxSurge": 0, "maxUnavailable": 1}
    return {"maxSurge": 1, "maxUnavailable": 0}


def _service(wanted: LLMService) -> dict[str, Any]:
    exposed = wanted.spec.expose.service
    metadata = _metadata(wanted, wanted.service_name)
    metadata["labels"] = exposed.labels | metadata["labels"]
    if exposed.annotations:
        metadata["annotations"] = dict(exposed.annotations)
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata,
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


def _metadata(wanted: LLMService, name: str) -> dict[str, Any]:
    owner = {
        "apiVersion": names.API_VERSION,
        "blockOwnerDeletion": True,
        "controller": True,
        "kind": names.KIND,
        "name": wanted.name,
        "uid": wanted.uid,
    }
    return {
        "labels": names.labels(wanted.name),
        "name": name,
        "namespace": wanted.namespace,
        "ownerReferences": [owner],
    }


def _with_hash(child: dict[str, Any]) -> dict[str, Any]:
    text = json.dumps(child, sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    metadata = child["metadata"]
    annotations = metadata.get("annotations", {}) | {names.RENDER_HASH: digest}
    return {**child, "metadata": {**metadata, "annotations": annotations}}
