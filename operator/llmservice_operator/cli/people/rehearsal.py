"""An object rendered as if everything were prepared: its claim exists, the model is looked up, the copy is complete."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from llmservice_planner import shape
from llmservice_planner.errors import ShapeError

from llmservice_operator.api import copies
from llmservice_operator.api.cache_key import CacheKey
from llmservice_operator.api.copies import Facts
from llmservice_operator.api.defaults import Defaults
from llmservice_operator.api.planned import Plan
from llmservice_operator.api.seen import CacheSeen, Seen
from llmservice_operator.api.spec import LLMService
from llmservice_operator.cli.people import planning
from llmservice_operator.cli.people.answers import BadInput
from llmservice_operator.desired import copying, extras, plan, render, revisions

NOW = datetime(2000, 1, 1, tzinfo=UTC)  # nothing that is rendered depends on it
COMMIT = re.compile(r"[0-9a-f]{40}")
UNKNOWN_COMMIT = "0" * 40

Body = dict[str, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Rehearsed:
    children: tuple[Body, ...]  # in the order in which they come
    planned: Plan
    assumed: tuple[str, ...]  # what was taken for granted, in sentences


def rehearse(
    body: Mapping[str, Any],
    wanted: LLMService,
    defaults: Defaults,
    namespace: str,
    revision: str | None = None,
) -> Rehearsed:
    """``namespace``: the operator's. ``revision``: the commit that the lookup would find.

    Raises:
        BadInput: ``spec.template`` holds something that only an API server would refuse, and that cannot be rendered.
    """
    try:
        return _rehearse(body, wanted, defaults, namespace, revision)
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise BadInput(
            f"it cannot be rendered, for spec.template has a value of the wrong kind: {error}"
        ) from None


def _rehearse(
    body: Mapping[str, Any], wanted: LLMService, defaults: Defaults, namespace: str, revision: str | None
) -> Rehearsed:
    facts, assumed = _facts(wanted, revision)
    seen = Seen(served=extras.OPTIONAL, claims=_own_claim(wanted))
    prepared: list[Body] = []
    lookup = _job(render.render(wanted, plan.for_spec(wanted, seen, NOW), seen, defaults, namespace).children)
    if lookup is not None:
        done = _done(lookup)
        seen = dataclasses.replace(
            seen, children={("Job", done["metadata"]["name"]): done}, pods=(_told(done, facts),)
        )
    if wanted.cache is not None and wanted.claim_name is not None:
        seen = dataclasses.replace(seen, cache=_cache(body, wanted, facts, defaults))
        prepared += [dict(one) for one in (*_claim(wanted, seen), *seen.cache.jobs)]
        assumed.append(
            f"claim {wanted.claim_name} exists" + (" and the copy is complete" if wanted.prefetches else "")
        )
    elif wanted.claim_name is not None:
        assumed.append(f"claim {wanted.claim_name} exists")
    planned = plan.for_spec(wanted, seen, NOW)
    made = render.render(wanted, planned, seen, defaults, namespace)
    children = [*((lookup,) if lookup is not None else ()), *map(_without_status, prepared)]
    children += [child for child in made.children if child["kind"] != "Job"]
    if planned.forbids_pods(wanted) and planned.memory is not None:
        assumed.append(f"no Deployment is made, for fitPolicy is Enforce: {planned.memory.message}")
    optional = sorted({child["kind"] for child in children} & extras.OPTIONAL)
    if optional:
        assumed.append(f"the cluster serves {', '.join(optional)}")
    return Rehearsed(tuple(children), planned, tuple(assumed))


def pod_of(children: Iterable[Body]) -> Body:
    """The engine pods' spec, from the Deployment or the revision that waits for one; empty where there is neither."""
    found: Body = {}
    for child in children:
        if child["kind"] == revisions.KIND:
            found = child["data"]["template"]["spec"]
    return found


def _facts(wanted: LLMService, revision: str | None) -> tuple[Facts, list[str]]:
    hub = wanted.spec.model.source.hf
    given = hub.revision if hub is not None else ""
    commit = revision or (given if COMMIT.fullmatch(given) else UNKNOWN_COMMIT)
    assumed = []
    if hub is not None and commit == UNKNOWN_COMMIT:
        assumed.append(f"revision {given} is commit {commit} (--revision says another)")
    config = planning.shape_of(wanted)
    size = _bytes_of(config) if config is not None else 0
    if (
        not size
        and wanted.cache is not None
        and (wanted.spec.startup.deadline is None or wanted.cache.size is None)
    ):
        assumed.append(
            f"the size of {planning.source_of(wanted)} is not known: deadline and claim are the least ones"
        )
    return Facts(commit, size, 1, size, config=config or {}), assumed


def _bytes_of(config: Mapping[str, Any]) -> int:
    try:
        model = shape.from_config(config)
        return model.weight_bytes(model.dtype)
    except ShapeError:
        return 0


def _own_claim(wanted: LLMService) -> dict[str, Body]:
    if wanted.claim_name is None:
        return {}
    asked = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "0"}}}
    return {wanted.claim_name: {"metadata": {"name": wanted.claim_name}, "spec": asked}}


def _cache(body: Mapping[str, Any], wanted: LLMService, facts: Facts, defaults: Defaults) -> CacheSeen:
    """The claim, and the job that has filled it."""
    key = CacheKey(wanted.namespace, str(wanted.claim_name))
    users = [copying.User(wanted, facts)]
    bare = _own_claim(wanted)[str(wanted.claim_name)] | {"status": {"phase": "Bound"}}
    first = render.render_cache(copying.render(key, users, [body], CacheSeen(), defaults, NOW)).children
    claim = first[0] if first else bare
    live = {**claim, "metadata": {**claim["metadata"], "uid": "rehearsed"}, "status": {"phase": "Bound"}}
    job = _job(
        render.render_cache(copying.render(key, users, [body], CacheSeen(claim=live), defaults, NOW)).children
    )
    return CacheSeen(claim=live, jobs=(_done(job),) if job is not None else ())


def _claim(wanted: LLMService, seen: Seen) -> tuple[Any, ...]:
    managed = wanted.cache is not None and wanted.cache.mode == "Managed" and seen.cache.claim is not None
    if not managed:
        return ()
    claim = dict(seen.cache.claim or {})
    claim["metadata"] = {key: value for key, value in claim["metadata"].items() if key != "uid"}
    return (claim,)


def _job(children: tuple[Body, ...]) -> Body | None:
    return next((child for child in children if child["kind"] == "Job"), None)


def _done(job: Body) -> Body:
    ended = [{"type": "Complete", "status": "True", "lastTransitionTime": NOW.isoformat()}]
    metadata = job["metadata"] | {"uid": f"uid-{job['metadata']['name']}"}
    return job | {"metadata": metadata, "status": {"conditions": ended}}


def _told(job: Body, facts: Facts) -> Body:
    """The pod of the lookup, with its answer."""
    ended = {"exitCode": 0, "message": facts.message(), "reason": "Completed"}
    assert copies.facts(facts.message()) is not None, "an answer can be read"
    return {
        "kind": "Pod",
        "metadata": {
            "name": job["metadata"]["name"],
            "labels": dict(job["metadata"]["labels"]),
            "ownerReferences": [{"kind": "Job", "uid": job["metadata"]["uid"]}],
        },
        "spec": {"containers": [{"name": "prefetch"}]},
        "status": {
            "phase": "Succeeded",
            "containerStatuses": [{"name": "prefetch", "state": {"terminated": ended}}],
        },
    }


def _without_status(child: Body) -> Body:
    metadata = {key: value for key, value in child["metadata"].items() if key != "uid"}
    return {**{key: value for key, value in child.items() if key != "status"}, "metadata": metadata}
