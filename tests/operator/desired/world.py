"""A small world for the pure parts: bodies, and children as they look after they were applied."""

from __future__ import annotations

import copy
from datetime import UTC, datetime
from typing import Any

from llmservice_operator.api import spec
from llmservice_operator.api.defaults import Defaults
from llmservice_operator.api.planned import Plan
from llmservice_operator.api.seen import Seen
from llmservice_operator.api.spec import LLMService
from llmservice_operator.desired import plan, render

CLAIM = {"metadata": {"name": "models"}, "spec": {"resources": {"requests": {"storage": "10G"}}}}
DEFAULTS = Defaults(image="engine:1", operator_image="operator:1")
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def body(name: str = "llama", **fields: Any) -> dict[str, Any]:
    given: dict[str, Any] = {"model": {"source": {"pvc": {"claimName": "models"}}}}
    return {
        "metadata": {"name": name, "namespace": "team", "uid": "u-1", "generation": 1},
        "spec": given | copy.deepcopy(fields),
    }


def wanted(**fields: Any) -> LLMService:
    return spec.parse(body(**fields))


def seen(*children: dict[str, Any], claims: tuple[dict[str, Any], ...] = (CLAIM,), pods: Any = ()) -> Seen:
    return Seen(
        children={(child["kind"], child["metadata"]["name"]): child for child in children},
        claims={claim["metadata"]["name"]: claim for claim in claims},
        pods=tuple(pods),
    )


def planned(of: LLMService, around: Seen) -> Plan:
    return plan.for_spec(of, around, NOON)


def render_all(of: LLMService, around: Seen, defaults: Defaults = DEFAULTS) -> render.Rendered:
    return render.render(of, planned(of, around), around, defaults, "llmservice-system")


def rendered(of: LLMService, around: Seen, defaults: Defaults = DEFAULTS) -> dict[str, dict[str, Any]]:
    """The children by kind: there is at most one of each."""
    return {child["kind"]: child for child in render_all(of, around, defaults).children}


def engine(children: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The engine's container."""
    containers = children["Deployment"]["spec"]["template"]["spec"]["containers"]
    found: dict[str, Any] = next(container for container in containers if container["name"] == "engine")
    return found
