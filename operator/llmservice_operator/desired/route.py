"""How a Gateway reaches the Service."""

from __future__ import annotations

from typing import Any

from llmservice_operator.api import names
from llmservice_operator.api.spec import LLMService
from llmservice_operator.desired import metadata

HTTP_ROUTE = "HTTPRoute"
NO_TIMEOUT = "0s"  # in the Gateway API's own words: none, or the longest that the gateway can do


def http_route(wanted: LLMService) -> dict[str, Any] | None:
    """Everything to the Service, without a limit in time: an answer is streamed for as long as it takes."""
    asked = wanted.spec.expose.route
    if asked is None:
        return None
    backend = {"name": wanted.service_name, "port": wanted.spec.expose.service.port}
    spec: dict[str, Any] = {
        "parentRefs": [ref.model_dump(by_alias=True, exclude_none=True) for ref in asked.parent_refs],
        "rules": [{"backendRefs": [backend], "timeouts": {"request": NO_TIMEOUT}}],
    }
    if asked.hostnames:
        spec["hostnames"] = list(asked.hostnames)
    return {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": HTTP_ROUTE,
        "metadata": metadata.of(wanted, names.child(wanted.name)),
        "spec": spec,
    }
