"""What the store does not hold of autoscaling: who else scales a Deployment, who serves the autoscaler's metrics."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

from llmservice_operator.api import conditions, contract, names
from llmservice_operator.api.seen import Seen
from llmservice_operator.api.spec import LLMService
from llmservice_operator.live import kinds, ownership
from llmservice_operator.live.client import ApiError, Client
from llmservice_operator.live.store import Body

SUSPECT = 60.0  # seconds for which somebody else is looked for after replicas have changed under us
KEPT = 5.0  # seconds for which an answer about the metrics' group is good
LOOK = 60.0  # seconds between two looks for an APIService of ours that leads nowhere
DEAD = 180.0  # seconds without a server behind it, after which it goes

_APISERVICES: Final = "/apis/apiregistration.k8s.io/v1/apiservices"

logger = logging.getLogger(__name__)


class Scaling:
    """A few small requests, only where something puzzles. What may not be read is not told."""

    def __init__(self, client: Client, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._clock = clock
        self._changed: dict[tuple[str, str], float] = {}  # Deployment → when its replicas were not ours
        self._group: tuple[float, tuple[Body, ...] | None] = (-KEPT, None)

    async def rivals(self, wanted: LLMService, seen: Seen) -> tuple[str, ...]:
        """Autoscalers of somebody else on a Deployment whose replicas the spec sets; in words, like ``Kind name``.

        Asked only where its replicas have changed under us, and from then on until they are gone.
        """
        where = (wanted.namespace, names.child(wanted.name))
        deployment = seen.child("Deployment", where[1])
        if deployment is None or wanted.replicas is None:
            return ()
        if deployment["spec"].get("replicas") != wanted.replicas:
            self._changed[where] = self._clock()
        elif self._clock() - self._changed.get(where, -SUSPECT) >= SUSPECT:
            self._changed.pop(where, None)
            told = conditions.of({"status": seen.status}, conditions.AUTOSCALING_ACTIVE)
            if told.get("reason") != conditions.CONTESTED:
                return ()
        try:
            found = await self._client.get(kinds.AUTOSCALER.path(wanted.namespace))
        except ApiError as error:
            logger.info("other autoscalers cannot be seen: %s", error.message)
            return ()
        return tuple(_named(one) for one in found.get("items") or () if _target(one) == where[1])

    async def group(self) -> tuple[Body, ...] | None:
        """The APIServices of the group that the autoscaler asks; None where they may not be read."""
        if self._clock() - self._group[0] >= KEPT:
            try:
                self._group = (self._clock(), await _registered(self._client))
            except ApiError as error:
                logger.info("who serves %s cannot be seen: %s", contract.METRICS_GROUP, error.message)
                self._group = (self._clock(), None)
        return self._group[1]


async def remove_dead(client: Client, now: datetime) -> None:
    """Remove each APIService of ours behind which there has been no server for a while.

    It would block the deletion of every namespace. The metrics server registers again when it is back.
    """
    try:
        for body in await _registered(client):
            available = conditions.of(body, "Available")
            labels, since = body["metadata"].get("labels") or {}, available.get("lastTransitionTime")
            if (
                labels.get(names.MANAGED_BY_LABEL) != names.MANAGER
                or available.get("status") != "False"
                or not since
            ):
                continue
            lasted = now - datetime.fromisoformat(since)
            if lasted >= timedelta(seconds=DEAD):
                name, uid = str(body["metadata"]["name"]), str(body["metadata"]["uid"])
                await client.delete(f"{_APISERVICES}/{name}", uid)
                logger.warning(
                    "removed APIService %s, which has led nowhere for %.0f s (%s) and would block the deletion of "
                    "every namespace; the metrics server registers again when it is back",
                    name,
                    lasted.total_seconds(),
                    available.get("message"),
                )
    except ApiError as error:
        logger.debug("APIServices: %s", error.message)


async def _registered(client: Client) -> tuple[Body, ...]:
    found = []
    for version in contract.METRICS_VERSIONS:
        try:
            found.append(await client.get(f"{_APISERVICES}/{version}.{contract.METRICS_GROUP}"))
        except ApiError as error:
            if error.code != 404:
                raise
    return tuple(found)


def _target(scaler: Body) -> str | None:
    reference = scaler["spec"].get("scaleTargetRef") or {}
    return str(reference.get("name")) if reference.get("kind") == "Deployment" else None


def _named(scaler: Body) -> str:
    """As its owner knows it: KEDA makes one of its own for each ScaledObject."""
    own = f'HorizontalPodAutoscaler "{scaler["metadata"]["name"]}"'
    return ownership.described(scaler) if ownership.has_controller(scaler) else own
