"""Nodes and everybody's pods: asked for only when a rollout of replicas with devices begins."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from llmservice_operator.live.client import ApiError, Client
from llmservice_operator.live.store import Body

KEPT = 5.0  # seconds for which an answer is good: many services may roll at once

logger = logging.getLogger(__name__)


class Nodes:
    """What the scheduler sees. None where we may not look (an install of single namespaces)."""

    def __init__(self, client: Client, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._clock = clock
        self._answer: tuple[float, tuple[list[Body], list[Body]] | None] = (-KEPT, None)

    async def look(self) -> tuple[list[Body], list[Body]] | None:
        """(nodes, pods on them that have not ended)."""
        if self._clock() - self._answer[0] >= KEPT:
            self._answer = (self._clock(), await self._ask())
        return self._answer[1]

    async def _ask(self) -> tuple[list[Body], list[Body]] | None:
        try:
            nodes: list[Body] = [
                node async for page, _ in self._client.pages("/api/v1/nodes", "", 0.0) for node in page
            ]
            pods: list[Body] = [
                {"spec": pod["spec"], "status": {"phase": pod.get("status", {}).get("phase")}}
                async for page, _ in self._client.pages("/api/v1/pods", "", 0.0)
                for pod in page
            ]
        except ApiError as error:
            logger.info("free devices cannot be seen: %s", error.message)
            return None
        return nodes, pods
