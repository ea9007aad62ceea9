"""Our resource in the states in which a GitOps tool meets it: made by the judge from the worlds of its own tests."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from llmservice_operator import status
from llmservice_operator.api import crd, names, spec
from llmservice_operator.api.seen import Applied, Seen
from llmservice_operator.desired import plan

from tests.operator.desired import test_preparing, world
from tests.operator.status import test_judge, test_preparation
from tests.operator.status.test_judge import NEW, NOON, TWO, W, deployment, judged

Body = dict[str, Any]

UNRESOLVED = test_preparing.hub()
GATED = {"code": "ModelGated", "message": "accept the licence"}


def resource(given: Body | None, generation: int = 1, **metadata: Any) -> Body:
    """As the API server has it. ``given``: the status; None: none was ever written."""
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "metadata": {"name": "llama", "namespace": "team", "generation": generation} | metadata,
        "spec": {},
    } | ({"status": given} if given is not None else {})


def created() -> Body:
    """Just created: what the CRD's own defaults make of it."""
    schema = crd.generate()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]
    return resource(dict(schema["default"]))


def of(wanted: spec.LLMService, seen: Seen) -> Body:
    seen = dataclasses.replace(seen, status=NEW)
    return status.judge(wanted, plan.for_spec(wanted, seen, NOON), seen, Applied(), NOON)


def invalid() -> Body:
    return status.invalid(world.body(), spec.InvalidSpec("spec.engine.args[0]", "is ours"), NEW, NOON)


UP = judged(TWO, world.seen(deployment(TWO, (2, 2, 2))))
STARTING = judged(W, world.seen(deployment(W, (1, 1, 0))))
STUCK = judged(W, world.seen(deployment(W, (0, 0, 0), conditions=[test_judge.LATE])))
SUSPENDED = judged(world.wanted(suspend=True), world.seen(deployment(world.wanted(suspend=True))))
ZERO = judged(world.wanted(replicas=0), world.seen(deployment(world.wanted(replicas=0))))
LOOKING = of(UNRESOLVED, test_preparation.running(UNRESOLVED))
REFUSED = of(UNRESOLVED, test_preparation.failed(UNRESOLVED, GATED))
KNOWN = of(UNRESOLVED, test_preparing.looked_up(UNRESOLVED, claims=()))

# What it is → (the resource, kstatus, Argo CD's health).
TABLE: dict[str, tuple[Body, str, str]] = {
    "just created": (created(), "InProgress", "Progressing"),
    "up": (resource(UP), "Current", "Healthy"),
    "edited since": (resource(UP, generation=2), "InProgress", "Progressing"),
    "starting": (resource(STARTING), "InProgress", "Progressing"),
    "time is up": (resource(STUCK), "Failed", "Degraded"),
    "time was up, edited since": (resource(STUCK, generation=2), "InProgress", "Progressing"),
    "invalid": (resource(invalid()), "Failed", "Degraded"),
    "suspended": (resource(SUSPENDED), "Current", "Suspended"),
    "scaled to zero": (resource(ZERO), "Current", "Suspended"),
    "looked up": (resource(LOOKING), "InProgress", "Progressing"),
    "the model is gated": (resource(REFUSED), "Failed", "Degraded"),
    "about to be copied": (resource(KNOWN), "InProgress", "Progressing"),
}
DELETED = {
    "deleted while up": resource(UP, deletionTimestamp="2026-01-01T12:00:00Z"),
    "deleted while stalled": resource(STUCK, deletionTimestamp="2026-01-01T12:00:00Z"),
}
CONCLUDED = {name: body for name, (body, _, _) in TABLE.items() if name != "just created"}


def judges_own() -> Iterator[tuple[str, Body]]:
    """Every row of the judge's own table."""
    for name, (wanted, seen, applied, _, _) in test_judge.TABLE.items():
        yield name, resource(judged(wanted, seen, applied), wanted.generation)


def expected(body: Body) -> tuple[str, str]:
    """(kstatus, Argo CD's health) by the rule in the guide, of a resource whose generation was concluded for."""
    found = {one["type"]: one for one in body["status"]["conditions"]}
    if "Stalled" in found:
        return "Failed", "Degraded"
    if found["Ready"]["status"] != "True":
        return "InProgress", "Progressing"
    resting = found["Ready"]["reason"] in ("Suspended", "ScaledToZero")
    return "Current", "Suspended" if resting else "Healthy"
