"""A child's metadata: its name, our labels, and the object that owns it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from llmservice_operator.api import names
from llmservice_operator.api.spec import LLMService

_NONE: Mapping[str, str] = MappingProxyType({})


def of(wanted: LLMService, name: str, labels: Mapping[str, str] = _NONE) -> dict[str, Any]:
    """Of a child that goes when ``wanted`` goes. Our own labels win over ``labels``."""
    owner = {
        "apiVersion": names.API_VERSION,
        "blockOwnerDeletion": True,
        "controller": True,
        "kind": names.KIND,
        "name": wanted.name,
        "uid": wanted.uid,
    }
    return {
        "labels": dict(labels) | names.labels(wanted.name),
        "name": name,
        "namespace": wanted.namespace,
        "ownerReferences": [owner],
    }
