"""A full list of each kind now and then: what a watch lost (a deletion across a 410) comes to light."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Sequence

from llmservice_operator.live import kinds
from llmservice_operator.live.client import ApiError, Client
from llmservice_operator.live.kinds import Kind
from llmservice_operator.live.store import Body, Store
from llmservice_operator.watch import metrics

PERIOD = 600.0  # seconds between two lists of a kind
PAUSE = 6.0  # seconds between two requests of the relists together: at most 10 a minute, however many objects
RETRY = 2.0

Learnt = Callable[[Kind, Body], None]

logger = logging.getLogger(__name__)


class Relist:
    """Fills the store at the start, then checks it for ever."""

    def __init__(self, client: Client, store: Store, namespaces: Sequence[str], learnt: Learnt) -> None:
        self._client = client
        self._store = store
        self._namespaces = tuple(namespaces)
        self._learnt = learnt

    async def first(self) -> None:
        """List every kind in use once, as fast as it goes, until all are there."""
        await asyncio.gather(*(self._until_listed(kind) for kind in self._store.kinds))

    async def forever(self, period: float = PERIOD) -> None:
        """List the kinds in turn, evenly spread over ``period`` with jitter."""
        while True:
            for kind in self._store.kinds:
                await asyncio.sleep(period / len(self._store.kinds) * random.uniform(0.8, 1.2))
                try:
                    await self._list(kind, PAUSE)
                except ApiError as error:
                    metrics.RELISTS.labels(kind.plural, "failed").inc()
                    logger.warning("relist of %s failed: %s", kind.plural, error.message)

    async def _until_listed(self, kind: Kind) -> None:
        while True:
            try:
                return await self._list(kind, 0.0)
            except ApiError as error:
                metrics.RELISTS.labels(kind.plural, "failed").inc()
                logger.warning("cannot list %s yet: %s", kind.plural, error.message)
                await asyncio.sleep(RETRY)

    async def _list(self, kind: Kind, pause: float) -> None:
        for namespace in self._namespaces or (None,):
            bodies: list[Body] = []
            version = "0"
            async for page, at in self._client.pages(kind.path(namespace), kind.selector, pause):
                bodies.extend(kinds.reduced(kind, body) for body in page)
                version = at
            scope = None if namespace is None else frozenset({namespace})
            for body in self._store.replace(kind, bodies, version, scope):
                self._learnt(kind, body)
        self._store.listed(kind)
        metrics.RELISTS.labels(kind.plural, "listed").inc()
