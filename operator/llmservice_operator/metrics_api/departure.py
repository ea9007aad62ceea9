"""Are we going for good? Then the APIServices must go first, or no namespace could be deleted any more."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from llmservice_operator.live.client import ApiError, Client

Body = Mapping[str, Any]

logger = logging.getLogger(__name__)


class OwnNamespace:
    """Told by a :class:`~llmservice_operator.metrics_api.follow.Follower` of our own namespace.

    Waiting for our SIGTERM would be too late: once the namespace controller begins, five seconds after the deletion,
    our service account and our rights may be the first that it deletes.
    """

    def __init__(self, name: str) -> None:
        self.path = "/api/v1/namespaces"
        self.selection = {"fieldSelector": f"metadata.name={name}"}
        self.going = asyncio.Event()

    def replace(self, bodies: list[Body]) -> None:
        if not bodies:
            self.going.set()
        for body in bodies:
            self.put(body)

    def put(self, body: Body) -> None:
        if "deletionTimestamp" in body["metadata"]:
            self.going.set()

    def drop(self, body: Body) -> None:
        self.going.set()


async def is_final(client: Client, namespace: str, deployment: str) -> bool:
    """At the end of this process: will there be no other after it?

    Where our rights have gone already, an uninstall is under way. If it is not, the next replica registers again.
    """
    try:
        found = await client.get(f"/apis/apps/v1/namespaces/{namespace}/deployments/{deployment}")
    except ApiError as error:
        logger.info("own Deployment: %s", error.message)
        return error.code in (401, 403, 404)
    return "deletionTimestamp" in found["metadata"] or found["spec"].get("replicas") == 0
