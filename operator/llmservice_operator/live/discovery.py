"""Which of the kinds that a cluster may lack the API server serves. Needs no right beyond discovery."""

from __future__ import annotations

import asyncio
import logging
import random

from llmservice_operator.live import kinds
from llmservice_operator.live.client import ApiError, Client
from llmservice_operator.live.kinds import Kind

PERIOD = 60.0  # seconds in which each optional kind is looked for once
SURE = (
    5.0  # seconds after which a change must still be one: an API server that starts may not know its CRDs yet
)
RETRY = 2.0

logger = logging.getLogger(__name__)


async def in_use(client: Client) -> tuple[Kind, ...]:
    """The required kinds and the optional ones that are served now. Asks until it is answered."""
    served = [kind for kind in kinds.OPTIONAL if await _until_answered(client, kind)]
    absent = ", ".join(_name(kind) for kind in kinds.OPTIONAL if kind not in served)
    if absent:
        logger.info("not served, and looked for every %.0f s: %s", PERIOD, absent)
    return (*kinds.REQUIRED, *served)


async def change(client: Client, known: tuple[Kind, ...]) -> str:
    """Wait until an optional kind comes or goes; what happened, in words. Few and even requests."""
    while True:
        for kind in kinds.OPTIONAL:
            await asyncio.sleep(PERIOD / len(kinds.OPTIONAL) * random.uniform(0.8, 1.2))
            if await _changed(client, kind, known):
                await asyncio.sleep(SURE)
                if await _changed(client, kind, known):
                    return told(kind, known)


async def gone(client: Client, known: tuple[Kind, ...]) -> str | None:
    """The first optional kind that is no longer served, in words: why a watch of it has ended."""
    for kind in known:
        if kind.optional and await _changed(client, kind, known):
            return told(kind, known)
    return None


def told(kind: Kind, known: tuple[Kind, ...]) -> str:
    return f"{_name(kind)} is {'no longer' if kind in known else 'now'} served"


async def is_served(client: Client, kind: Kind) -> bool:
    """Does the API server have the kind in this version?

    Raises:
        ApiError: no answer, or one that does not say.
    """
    try:
        resources = (await client.get(f"/apis/{kind.api_version}")).get("resources") or ()
    except ApiError as error:
        if error.code == 404:
            return False
        raise
    return any(resource.get("name") == kind.plural for resource in resources)


async def _until_answered(client: Client, kind: Kind) -> bool:
    while True:
        try:
            return await is_served(client, kind)
        except ApiError as error:
            logger.warning("cannot tell yet whether %s is served: %s", _name(kind), error.message)
            await asyncio.sleep(RETRY)


async def _changed(client: Client, kind: Kind, known: tuple[Kind, ...]) -> bool:
    try:
        return await is_served(client, kind) is not (kind in known)
    except ApiError as error:
        logger.debug("cannot tell whether %s is served: %s", _name(kind), error.message)
        return False


def _name(kind: Kind) -> str:
    return f"{kind.plural}.{kind.group}/{kind.version}"
