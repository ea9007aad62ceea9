"""Requests to the API server, and what its refusals mean."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp

from llmservice_operator.api import names

Body = Mapping[str, Any]

TIMEOUT = aiohttp.ClientTimeout(total=10, sock_connect=5)  # seconds
PAGE = 500  # objects a list request
APPLY_TYPE = "application/apply-patch+yaml"  # JSON is YAML
MERGE_TYPE = "application/merge-patch+json"
LONGEST_PAUSE = 30.0  # seconds, however many a Retry-After asks for
_LATER = frozenset({401, 408, 409, 410, 425, 429})  # beside every 5xx


class ApiError(Exception):
    """The API server's answer was no, or none came.

    ``code`` is the HTTP status, None where there was no answer. ``message`` is the server's own words.
    """

    def __init__(self, code: int | None, reason: str, message: str, causes: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self._causes = causes

    @property
    def may_succeed_later(self) -> bool:
        """False where the same request will be refused until somebody changes the spec or the cluster.

        Lacking rights are no fault of the spec, and an API server that has just started denies everything.
        """
        return self.code is None or self.code >= 500 or self.code in _LATER or self._lacks_rights

    @property
    def _lacks_rights(self) -> bool:
        return self.code == 403 and 'User "' in self.message and '" cannot ' in self.message

    @property
    def namespace_is_going(self) -> bool:
        return "NamespaceTerminating" in self._causes


@dataclass(frozen=True, slots=True)
class Written:
    """The object after a write."""

    body: dict[str, Any]
    created: bool


class Client:
    """A session and the few verbs that the operator uses.

    Where an answer says Retry-After, no request goes out before, but for leases: a leader has to renew.
    """

    def __init__(self, session: aiohttp.ClientSession, server: str) -> None:
        self._session = session
        self._server = server.rstrip("/")
        self._not_before = 0.0  # by the event loop's clock

    async def get(self, path: str, query: Mapping[str, str] | None = None) -> dict[str, Any]:
        return (await self._call("GET", path, query=query)).body

    async def create(self, path: str, body: Body) -> dict[str, Any]:
        return (await self._call("POST", path, body=body)).body

    async def replace(self, path: str, body: Body) -> dict[str, Any]:
        return (await self._call("PUT", path, body=body)).body

    async def apply(self, path: str, body: Body, manager: str = names.MANAGER) -> Written:
        """Server-side apply, whole intent: fields that ``manager`` owned and no longer sends are removed."""
        query = {"fieldManager": manager, "force": "true"}
        return await self._call("PATCH", path, query=query, body=body, content_type=APPLY_TYPE)

    async def merge(self, path: str, body: Body) -> dict[str, Any]:
        query = {"fieldManager": names.MANAGER}
        return (await self._call("PATCH", path, query=query, body=body, content_type=MERGE_TYPE)).body

    async def delete(self, path: str, uid: str) -> None:
        """Delete this very object; its dependants follow in the background."""
        options = {"propagationPolicy": "Background", "preconditions": {"uid": uid}}
        await self._call("DELETE", path, body=options)

    async def pages(
        self, path: str, selector: str, pause: float
    ) -> AsyncIterator[tuple[list[dict[str, Any]], str]]:
        """A whole collection, page by page, ``pause`` seconds apart, each with the version it is consistent at."""
        query = {"limit": str(PAGE)} | ({"labelSelector": selector} if selector else {})
        while True:
            answer = await self.get(path, query)
            metadata = answer.get("metadata") or {}
            yield answer.get("items") or [], str(metadata["resourceVersion"])
            if not metadata.get("continue"):
                return
            query["continue"] = metadata["continue"]
            await asyncio.sleep(pause)

    async def _call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Body | None = None,
        content_type: str = "application/json",
    ) -> Written:
        data = None if body is None else json.dumps(body, default=dict).encode()
        headers = {"Accept": "application/json"} | (
            {"Content-Type": content_type} if data is not None else {}
        )
        if "/leases" not in path:
            await self._heed()
        try:
            async with self._session.request(
                method, self._server + path, params=query, data=data, headers=headers, timeout=TIMEOUT
            ) as answer:
                text = await answer.text()
                if answer.status >= 300:
                    self._pause(answer.headers.get("Retry-After", ""))
                    raise _refusal(answer.status, answer.reason or "", text)
                return Written(json.loads(text), created=answer.status == 201)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise ApiError(
                None, "Unreachable", f"no answer from the API server: {error or type(error).__name__}"
            ) from error
        except json.JSONDecodeError as error:
            raise ApiError(None, "Garbled", f"the answer is not JSON: {error}") from error

    async def _heed(self) -> None:
        if (wait := self._not_before - asyncio.get_running_loop().time()) > 0:
            await asyncio.sleep(wait)

    def _pause(self, retry_after: str) -> None:
        """Kubernetes gives seconds; a date is nobody's but a proxy's, and is not heeded."""
        if retry_after.isdecimal():
            until = asyncio.get_running_loop().time() + min(float(retry_after), LONGEST_PAUSE)
            self._not_before = max(self._not_before, until)


def _refusal(code: int, reason: str, text: str) -> ApiError:
    try:
        status = json.loads(text)
    except json.JSONDecodeError:
        status = {}
    if not isinstance(status, dict):
        status = {}
    causes = (status.get("details") or {}).get("causes") or ()
    return ApiError(
        code,
        str(status.get("reason") or reason),
        str(status.get("message") or text[:500] or reason),
        tuple(str(cause.get("reason")) for cause in causes),
    )
