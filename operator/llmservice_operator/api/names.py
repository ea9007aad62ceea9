"""The only place that makes names and labels."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any

GROUP = "serving.llmservice.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
KIND = "LLMService"
PLURAL = "llmservices"
SINGULAR = "llmservice"
SHORT = "llmsvc"
MANAGER = "llmservice-operator"  # server-side apply field manager, and the managed-by label
CLUSTER_LEASE = MANAGER  # one of several cluster-wide installs has it; all of them look in the same namespace
CLUSTER_LEASE_NAMESPACE = "kube-system"
HANDOVER_MANAGER = f"{MANAGER}-handover"  # keeps a Deployment's replicas until an autoscaler writes them

NAME_LABEL = "app.kubernetes.io/name"
INSTANCE_LABEL = "app.kubernetes.io/instance"
COMPONENT_LABEL = "app.kubernetes.io/component"
MANAGED_BY_LABEL = "app.kubernetes.io/managed-by"
REVISION_LABEL = f"{GROUP}/revision"  # on pod templates and revisions: the hash of the spec they came from
OWNED_LABELS = frozenset({NAME_LABEL, INSTANCE_LABEL, COMPONENT_LABEL, MANAGED_BY_LABEL, REVISION_LABEL})

RENDER_HASH = f"{GROUP}/render-hash"  # annotation on every child
ATTEMPT = f"{GROUP}/attempt"  # annotation on a job: which one it is, and which try
ROLLOUT = (
    f"{GROUP}/rollout"  # annotation on a Deployment: for which template which strategy was chosen, and why
)

CACHE_LABEL = f"{GROUP}/cache-key"  # on a cache's claim, jobs and their pods: the claim's name
OWNED_LABELS |= {CACHE_LABEL}

ENGINE = "engine"  # the container, and the component label's value
PREFETCH = "prefetch"  # component of the jobs, and their container
HTTP_PORT = "http"  # the port's name, on the container and on the Service

_LONGEST = 63
_HASH_DIGITS = 8
_DNS_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")


def child(name: str, suffix: str = "") -> str:
    """A child's name: ``name``, or ``name-suffix``, as a DNS-1035 label of at most 63 characters.

    A name that must be changed to become one (dots, a leading digit, too long) is cut and ends in a hash of the
    original, so that two objects never share a child.
    """
    tail = f"-{suffix}" if suffix else ""
    if _DNS_1035.fullmatch(name) and len(name) + len(tail) <= _LONGEST:
        return name + tail
    readable = re.sub(r"[^a-z0-9-]", "-", name.lower())
    if not readable[:1].isalpha():
        readable = f"llm-{readable}"
    tail = f"-{_digest(name)}{tail}"
    return readable[: _LONGEST - len(tail)].rstrip("-") + tail


def cache(source: Mapping[str, Any]) -> str:
    """The managed claim of a source and its revision: readable, and unique by a hash. Files do not count: one claim
    holds them all."""
    kind, given = next(iter(source.items()))
    identity = [kind, *(str(given.get(field, "")) for field in ("repo", "uri", "revision", "endpoint"))]
    readable = str(given.get("repo") or given.get("uri")).rstrip("/").rpartition("/")[2].lower()
    readable = re.sub(r"[^a-z0-9]+", "-", readable).strip("-")[:36].rstrip("-")
    return "-".join(part for part in ("llm-cache", readable, _digest("\n".join(identity))) if part)


def label_value(name: str) -> str:
    """An object's name as a label value: itself, or cut with a hash where it is longer than 63 characters."""
    if len(name) <= _LONGEST:
        return name
    return f"{name[: _LONGEST - _HASH_DIGITS - 1].rstrip('-.')}-{_digest(name)}"


def labels(name: str, component: str = ENGINE) -> dict[str, str]:
    """Labels of every child of the object ``name``."""
    return {
        NAME_LABEL: SINGULAR,
        INSTANCE_LABEL: label_value(name),
        COMPONENT_LABEL: component,
        MANAGED_BY_LABEL: MANAGER,
    }


def cache_labels(claim: str) -> dict[str, str]:
    """Labels of a cache's claim and jobs: they belong to no single object."""
    return {NAME_LABEL: SINGULAR, COMPONENT_LABEL: PREFETCH, MANAGED_BY_LABEL: MANAGER, CACHE_LABEL: claim}


def selector(name: str) -> dict[str, str]:
    """Labels that select the engine's pods of the object ``name``. Part of an immutable field: never changes."""
    return {NAME_LABEL: SINGULAR, INSTANCE_LABEL: label_value(name), COMPONENT_LABEL: ENGINE}


def selector_text(name: str) -> str:
    """:func:`selector` as the scale subresource wants it."""
    return ",".join(f"{key}={value}" for key, value in selector(name).items())


def _digest(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:_HASH_DIGITS]
