"""Who may reach the engines, and whom they may reach."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from llmservice_operator.api import names
from llmservice_operator.api.spec import LLMService
from llmservice_operator.desired import metadata

NAMESPACE_LABEL = "kubernetes.io/metadata.name"  # which Kubernetes sets on every namespace
_HTTPS = 443
_DNS = 53


def policy(
    wanted: LLMService, operator_namespace: str, hub_endpoint: str | None = None
) -> dict[str, Any] | None:
    """A NetworkPolicy of the engines' pods. ``hub_endpoint`` is the mirror where an object names none."""
    if not wanted.spec.network_policy.enabled:
        return None
    own = {"podSelector": {"matchLabels": names.selector(wanted.name)}}
    operator = {"namespaceSelector": {"matchLabels": {NAMESPACE_LABEL: operator_namespace}}}
    peers = [{"podSelector": {}}, operator, *(dict(peer) for peer in wanted.spec.network_policy.from_)]
    egress: list[dict[str, Any]] = [
        {"ports": [{"port": _DNS, "protocol": "UDP"}, {"port": _DNS, "protocol": "TCP"}]},
        {"to": [own]},
    ]
    if wanted.cache is not None and not wanted.prefetches:  # each pod fetches the model itself
        ports = _endpoint_ports(wanted, hub_endpoint)
        egress.append({"ports": [{"port": port, "protocol": "TCP"} for port in ports]})
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata.of(wanted, names.child(wanted.name)),
        "spec": {
            "egress": egress,
            "ingress": [{"from": peers, "ports": [{"port": names.HTTP_PORT, "protocol": "TCP"}]}],
            "podSelector": own["podSelector"],
            "policyTypes": ["Ingress", "Egress"],
        },
    }


def _endpoint_ports(wanted: LLMService, hub_endpoint: str | None) -> list[int]:
    """443 always: what is fetched may lie behind a redirect to a content network."""
    source = wanted.spec.model.source
    if source.hf is not None:
        endpoint = source.hf.endpoint or hub_endpoint
    else:
        endpoint = source.s3.endpoint if source.s3 is not None else None
    return sorted({_HTTPS} | ({_port(endpoint)} if endpoint else set()))


def _port(url: str) -> int:
    parts = urlsplit(url)
    return parts.port or (80 if parts.scheme == "http" else _HTTPS)
