"""What a spec asks of a managed claim and the claim that there is cannot give."""

from __future__ import annotations

import math

from llmservice_operator.api import quantities
from llmservice_operator.api.seen import Object
from llmservice_operator.api.spec import LLMService


def contradictions(wanted: LLMService, claim: Object | None) -> tuple[tuple[str, str], ...]:
    """(reason, message) of what the spec asks of a managed claim and the claim that there is cannot give."""
    cache = wanted.cache
    if claim is None or cache is None or cache.mode != "Managed":
        return ()
    name, spec = claim["metadata"]["name"], claim.get("spec", {})
    said = []
    if cache.storage_class_name and spec.get("storageClassName") != cache.storage_class_name:
        has = spec.get("storageClassName") or "none"
        said.append(
            ("ClaimImmutable", f"claim {name} has storage class {has}, {cache.storage_class_name} is asked")
        )
    if cache.access_mode and cache.access_mode not in (spec.get("accessModes") or ()):
        has = ", ".join(spec.get("accessModes") or ())
        said.append(("ClaimImmutable", f"claim {name} is {has}, {cache.access_mode} is asked"))
    asked = spec.get("resources", {}).get("requests", {}).get("storage") or 0
    size = math.ceil(quantities.parse(asked))
    if cache.size is not None and quantities.parse(cache.size) < size:
        has = quantities.gib(size)
        said.append(
            ("ClaimShrinks", f"claim {name} has {has}, {cache.size} is asked: a claim does not shrink")
        )
    return tuple(said)
