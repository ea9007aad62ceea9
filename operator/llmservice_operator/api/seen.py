"""What the operator sees of one object's children, and what its writes came to.

Plain Kubernetes objects (dicts as the API server sends them, ``managedFields`` stripped), taken from the store
without a request. ``desired`` and ``status`` read these; only ``live`` makes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class CacheSeen:
    """A cache: its claim, the jobs that copy into it and their pods."""

    claim: Object | None = None
    jobs: tuple[Object, ...] = ()
    pods: tuple[Object, ...] = ()
    refused: tuple[AppliedChild, ...] = ()  # what the API server refused when the cache was last rendered


@dataclass(frozen=True, slots=True)
class Seen:
    """One ``LLMService``'s surroundings at one moment."""

    children: Mapping[tuple[str, str], Object] = field(default_factory=dict)  # ours, by (kind, name)
    pods: tuple[Object, ...] = ()  # of this object, every revision, terminating ones too
    claims: Mapping[str, Object] = field(default_factory=dict)  # referenced claims that exist, by name
    cache: CacheSeen = CacheSeen()  # of the claim that holds the copy
    status: Object = field(default_factory=dict)  # what the object's own status says now
    events: Mapping[str, tuple[Object, ...]] = field(default_factory=dict)  # of what waits, by UID
    served: frozenset[str] = frozenset()  # kinds that the cluster serves
    free: int | None = (
        None  # replicas more that the nodes have devices for; None: not asked, or not to be seen
    )
    copied_bytes: int | None = None  # how far a copy under way has come, in coarse steps
    measured: Object | None = None  # status.memory as an engine of this spec has told it
    rivals: tuple[str, ...] = ()  # autoscalers of somebody else, in words, where they undo spec.replicas
    metrics_group: tuple[Object, ...] | None = None  # its APIServices; None: not asked, or not to be seen

    def child(self, kind: str, name: str) -> Object | None:
        return self.children.get((kind, name))


class Action(StrEnum):
    CREATED = "created"
    PATCHED = "patched"
    UNCHANGED = "unchanged"
    DELETED = "deleted"
    REFUSED = "refused"  # the API server said no, for good: the spec (or a foreign owner) must change
    FAILED = "failed"  # may succeed later: conflict, throttled, unreachable


@dataclass(frozen=True, slots=True)
class AppliedChild:
    """What one child's write came to. ``live`` is the object afterwards, None where there is none."""

    kind: str
    name: str
    action: Action
    live: Object | None = None
    message: str = ""  # the API server's own words, for REFUSED and FAILED
    status_code: int | None = None


@dataclass(frozen=True, slots=True)
class Applied:
    children: tuple[AppliedChild, ...] = ()

    def of(self, kind: str) -> AppliedChild | None:
        return next((child for child in self.children if child.kind == kind), None)

    @property
    def refused(self) -> tuple[AppliedChild, ...]:
        return tuple(child for child in self.children if child.action is Action.REFUSED)

    @property
    def failed(self) -> tuple[AppliedChild, ...]:
        return tuple(child for child in self.children if child.action is Action.FAILED)
