"""The object's conditions: their types, and how one is set without touching what has not changed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

READY = "Ready"
RECONCILING = "Reconciling"  # abnormal-true: absent when all is well; may still succeed
STALLED = "Stalled"  # abnormal-true: absent when all is well; the spec must change, or time is up
MODEL_RESOLVED = "ModelResolved"
CACHE_READY = "CacheReady"
MEMORY_FITS = "MemoryFits"
AVAILABLE = "Available"
AUTOSCALING_ACTIVE = "AutoscalingActive"
ORDER = (
    *(READY, RECONCILING, STALLED),
    *(MODEL_RESOLVED, CACHE_READY, MEMORY_FITS, AVAILABLE, AUTOSCALING_ACTIVE),
)

CONTESTED = "ReplicasContested"  # reason of AutoscalingActive: another sets the replicas that the spec sets

LONGEST_MESSAGE = 1024  # characters
_LONGEST_REASON = 128
_REASON = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")


@dataclass(frozen=True, slots=True)
class Conditions:
    """Conclusions about one generation. ``previous`` keeps the times of what has not changed."""

    generation: int
    now: datetime
    previous: Sequence[Mapping[str, Any]] = ()
    _set: dict[str, dict[str, Any]] = field(default_factory=dict)

    def set(self, type: str, status: bool, reason: str, message: str = "") -> None:  # noqa: A002 (Kubernetes' word)
        text = "True" if status else "False"
        before = next((c for c in self.previous if c.get("type") == type), {})
        kept = before.get("lastTransitionTime") if before.get("status") == text else None
        self._set[type] = {
            "type": type,
            "status": text,
            "reason": as_reason(reason),
            "message": cut(message),
            "observedGeneration": self.generation,
            "lastTransitionTime": kept or timestamp(self.now),
        }

    def as_list(self) -> list[dict[str, Any]]:
        """In a fixed order. What was not set is absent."""
        return [self._set[type] for type in ORDER if type in self._set]  # noqa: A001


def of(body: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    """A condition of any Kubernetes object's status; empty where it has none of that type."""
    given: Sequence[Mapping[str, Any]] = (body.get("status") or {}).get("conditions") or ()
    return next((found for found in given if found.get("type") == kind), {})


def as_reason(text: str) -> str:
    """``text`` as a condition's reason: CamelCase as the API conventions ask, or ``Unknown``."""
    candidate = re.sub(r"[^A-Za-z0-9_,:]", "", text)[:_LONGEST_REASON].rstrip(",:")
    return candidate if _REASON.fullmatch(candidate) else "Unknown"


def cut(message: str, longest: int = LONGEST_MESSAGE) -> str:
    """``message`` on at most ``longest`` characters."""
    return message if len(message) <= longest else message[: longest - 1] + "…"


def timestamp(moment: datetime) -> str:
    """As Kubernetes writes it: ``2026-01-31T12:00:00Z``."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
