"""Is the resource served, and does its schema have every field that this operator reads?"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping
from typing import Any

from llmservice_operator.api import names
from llmservice_operator.live.client import ApiError, Client

POLL = 2.0  # seconds
ATTEMPTS = 15  # the API server publishes a new schema some seconds after it serves the resource
_SERVED = f"/apis/{names.API_VERSION}"

logger = logging.getLogger(__name__)


async def wait_served(client: Client) -> None:
    """Wait until the API server serves the resource: a CRD may be installed after the operator."""
    told = False
    while not await _served(client):
        if not told:
            logger.error(
                "the API server does not serve %s in %s: is the CRD installed?",
                names.PLURAL,
                names.API_VERSION,
            )
            told = True
        await asyncio.sleep(POLL)


async def check(client: Client, ours: Mapping[str, Any]) -> tuple[str, ...]:
    """The fields of ``ours`` (an OpenAPI schema) that the served schema lacks; each is logged as an error.

    Needs no right beyond discovery. Gives up with a warning where the schema cannot be read.
    """
    for _ in range(ATTEMPTS):
        try:
            served = _component(await client.get(f"/openapi/v3{_SERVED}"))
        except ApiError as error:
            logger.debug("served schema not read: %s", error.message)
            served = None
        if served is not None:
            lacking = tuple(missing(ours, served))
            for path in lacking:
                logger.error(
                    "the installed CRD lacks %s: what users write there is dropped; upgrade the CRD", path
                )
            return lacking
        await asyncio.sleep(POLL)
    logger.warning("the served schema of %s could not be read; fields are not checked", names.PLURAL)
    return ()


def missing(ours: Mapping[str, Any], served: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """Paths of properties that ``ours`` has and ``served`` neither has nor lets pass."""
    if served.get("x-kubernetes-preserve-unknown-fields") or "additionalProperties" in served:
        return
    found = served.get("properties") or {}
    for name, below in (ours.get("properties") or {}).items():
        here = f"{path}.{name}" if path else name
        if name not in found:
            yield here
        elif isinstance(below, Mapping):
            yield from missing(below, found[name], here)
    if isinstance(ours.get("items"), Mapping):
        yield from missing(ours["items"], served.get("items") or {}, f"{path}[]")


async def _served(client: Client) -> bool:
    try:
        resources = (await client.get(_SERVED)).get("resources") or ()
    except ApiError as error:
        if error.code != 404:
            logger.warning("discovery failed: %s", error.message)
        return False
    return any(resource.get("name") == names.PLURAL for resource in resources)


def _component(document: Mapping[str, Any]) -> Mapping[str, Any] | None:
    schemas = (document.get("components") or {}).get("schemas") or {}
    for schema in schemas.values():
        for kind in schema.get("x-kubernetes-group-version-kind") or ():
            if kind.get("kind") == names.KIND and kind.get("version") == names.VERSION:
                found: Mapping[str, Any] = schema
                return found
    return None
