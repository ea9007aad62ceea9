"""A cache as something that is reconciled: the claim's namespace and name, shared by every service that uses it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from llmservice_operator.api import names


@dataclass(frozen=True, slots=True)
class CacheKey:
    namespace: str
    claim: str

    @property
    def name(self) -> str:
        return self.claim

    def __str__(self) -> str:
        return f"cache {self.namespace}/{self.claim}"


def claim_of(body: Mapping[str, Any]) -> tuple[str, bool] | None:
    """The claim that an object refers to, and whether it holds a copy; of an object whose spec may be invalid."""
    spec = body.get("spec")
    model = spec.get("model") if isinstance(spec, Mapping) else None
    source = model.get("source") if isinstance(model, Mapping) else None
    if not isinstance(spec, Mapping) or not isinstance(source, Mapping) or not source:
        return None
    kind, given = next(iter(source.items()))
    if not isinstance(given, Mapping):
        return None
    if kind == "pvc":
        return (str(given["claimName"]), False) if given.get("claimName") else None
    cache = spec.get("cache") or {}
    match cache.get("mode", "Managed"):
        case "Existing":
            return (str(cache["claimName"]), True) if cache.get("claimName") else None
        case "Managed":
            with_default = {"revision": "main", **given} if kind == "hf" else given
            return names.cache({kind: with_default}), True
    return None
