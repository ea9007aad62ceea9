"""Cluster-wide defaults: the chart's values. They count when a template is first rendered, never later."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

ENGINE_IMAGE = "ghcr.io/llmservice/llmservice-engine:0.1.0"
OPERATOR_IMAGE = "ghcr.io/llmservice/llmservice-operator:0.1.0"
VARIABLE = "LLMSERVICE_ENGINE_DEFAULTS"  # environment variable with the JSON that `from_json` reads


class DefaultsError(ValueError):
    """The defaults that the operator was started with cannot be read."""


@dataclass(frozen=True, slots=True)
class Defaults:
    image: str = ENGINE_IMAGE
    image_pull_policy: str | None = None
    image_pull_secrets: tuple[str, ...] = ()
    runtime_class_name: str | None = None
    node_selector: Mapping[str, str] | None = None
    tolerations: tuple[Mapping[str, Any], ...] = ()
    storage_class_name: str | None = None  # of managed claims where an object names none
    hub_endpoint: str | None = None  # mirror of the hub where an object names none
    operator_image: str = OPERATOR_IMAGE  # of the jobs that fetch models


def from_json(text: str, image: str | None = None, operator_image: str | None = None) -> Defaults:
    """Read the chart's ``engine`` values; ``image`` (the operator's flag) goes before the one in ``text``.

    ``operator_image`` is the operator's own, which the chart gives as a flag too.

    Raises:
        DefaultsError: not JSON, not an object, or a key that is not a default.
    """
    try:
        given = json.loads(text or "{}")
    except json.JSONDecodeError as error:
        raise DefaultsError(f"{VARIABLE} is not JSON: {error}") from None
    if not isinstance(given, dict):
        raise DefaultsError(f"{VARIABLE} is not a JSON object")
    known = {
        "image",
        "imagePullPolicy",
        "imagePullSecrets",
        "runtimeClassName",
        "nodeSelector",
        "tolerations",
        "storageClassName",
        "hubEndpoint",
    }
    unknown = sorted(set(given) - known)
    if unknown:
        raise DefaultsError(f"{VARIABLE}: unknown key {unknown[0]!r}; known: {', '.join(sorted(known))}")
    return Defaults(
        image=image or given.get("image") or ENGINE_IMAGE,
        image_pull_policy=given.get("imagePullPolicy") or None,
        image_pull_secrets=tuple(item["name"] for item in given.get("imagePullSecrets") or ()),
        runtime_class_name=given.get("runtimeClassName") or None,
        node_selector=given.get("nodeSelector") or None,
        tolerations=tuple(given.get("tolerations") or ()),
        storage_class_name=given.get("storageClassName") or None,
        hub_endpoint=given.get("hubEndpoint") or None,
        operator_image=operator_image or OPERATOR_IMAGE,
    )
