"""Nodes and everybody's pods: asked for only when a rollout of replicas with devices begins."""

from __future__ import annotations

import asyncio
import logging

from llmservice_operator.live.client import ApiError, Client
from llmservice_operator.live.store import Body

logger = logging.getLogger(__name__)

Found = tuple[list[Body], list[Body]] | None


class Nodes:
    """What the scheduler sees. None where we may not look (an install of single namespaces).

    Those who ask while an answer is on its way share it: many services may roll at once. None is kept, for the
    rollout before has changed what is free.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._asking: asyncio.Task[Found] | None = None

    async def look(self) -> Found:
        """(nodes, pods on them that have not ended)."""
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._ask())
        return await asyncio.shield(self._asking)

    async def _ask(self) -> Found:
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
