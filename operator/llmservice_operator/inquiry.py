"""What the store does not hold and a status wants to say: events of what waits, and what pods tell of themselves.

A few small requests, only where something puzzles or has not told yet. Nothing else depends on the answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime

from llmservice_operator.api import attempts, conditions, names, revision
from llmservice_operator.api.planned import Plan
from llmservice_operator.api.seen import Object, Seen
from llmservice_operator.api.spec import LLMService
from llmservice_operator.desired import placement, rollout
from llmservice_operator.live.events import EventReader
from llmservice_operator.live.nodes import Nodes
from llmservice_operator.live.pods import Pods
from llmservice_operator.live.scaling import Scaling
from llmservice_operator.status import autoscaling, puzzles

COPYING = 10.0  # seconds between two looks at a copy under way
PENDING = 10.0  # seconds between two looks at a claim that is not bound
SCALED = 30.0  # seconds between two looks at what stands in the way of scaling


@dataclass(frozen=True, slots=True)
class Inquiry:
    events: EventReader
    pods: Pods
    nodes: Nodes
    scaling: Scaling

    async def free(self, wanted: LLMService, seen: Seen) -> int | None:
        """How many more replicas the nodes have room for; None where that cannot be seen."""
        found, deployment = await self.nodes.look(), seen.child("Deployment", names.child(wanted.name))
        if found is None or deployment is None:
            return None
        pod = deployment["spec"]["template"]["spec"]  # the new one asks for about the same
        return placement.room(*found, pod)

    async def complete(
        self, wanted: LLMService, planned: Plan, seen: Seen, now: datetime
    ) -> tuple[Seen, float | None]:
        """``seen`` with the answers, and in how many seconds to ask again, where nothing else would tell."""
        engines = revision.pods_of(wanted, seen.pods)
        working = tuple(_working(planned, seen))
        claims = {str(one["metadata"]["uid"]): one for one in seen.claims.values() if _is_pending(one)}
        puzzling = [*puzzles.puzzling((*engines, *working), now), *claims.values()]
        told = replace(
            seen,
            events=await self.events.about(puzzling),
            copied_bytes=await self.pods.copied(working) if planned.is_copying else None,
            measured=await self.pods.memory(_ready(engines)),
            rivals=await self.scaling.rivals(wanted, seen),
            metrics_group=await self.scaling.group() if autoscaling.lacks_metric(wanted, seen) else None,
        )
        waits = [puzzles.next_look((*engines, *working), now)]
        waits += [COPYING] if planned.is_copying else []
        waits += [PENDING] if claims else []
        waits += [SCALED] if told.rivals or told.metrics_group is not None else []
        waits.append(rollout.due_in(wanted, seen, now))
        return told, min((wait for wait in waits if wait is not None), default=None)


def _working(planned: Plan, seen: Seen) -> Iterator[Object]:
    """Pods of the jobs under way."""
    for turn, pods in ((planned.lookup, seen.pods), (planned.copy, seen.cache.pods)):
        if turn is not None:
            yield from attempts.pods_of(turn.job, pods)


def _is_pending(claim: Object) -> bool:
    phase: str = claim.get("status", {}).get("phase", "Pending")
    return phase == "Pending"


def _ready(pods: Iterable[Object]) -> Iterator[Object]:
    yield from (pod for pod in pods if conditions.of(pod, "Ready").get("status") == "True")
