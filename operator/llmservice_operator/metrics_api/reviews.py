"""Asks the API server whose a token is, and who may read what. Answers stand for a few seconds."""

from __future__ import annotations

import hashlib
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from llmservice_operator.live.client import Client
from llmservice_operator.metrics_api import wire
from llmservice_operator.metrics_api.callers import Caller, with_group
from llmservice_operator.metrics_api.recent import Recent

STANDS = 10.0  # seconds
REMEMBERED = 2000  # answers of each kind
TOKENS_A_SECOND = 20  # that are looked up: strangers must not make us a flood on the API server

_TOKENS: Final = "/apis/authentication.k8s.io/v1/tokenreviews"
_ACCESS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


class TooManyTokens(Exception):
    """More new tokens a second than are looked up."""


@dataclass(frozen=True, slots=True)
class Question:
    """A metric of an LLMService that somebody wants to read."""

    version: str
    namespace: str
    name: str
    metric: str


class Reviews:
    def __init__(self, client: Client, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._clock = clock
        self._callers: Recent[str, Caller | None] = Recent(STANDS, REMEMBERED, clock)
        self._answers: Recent[tuple[Caller, Question], bool] = Recent(STANDS, REMEMBERED, clock)
        self._looked_up: deque[float] = deque(maxlen=TOKENS_A_SECOND)

    async def caller(self, token: str) -> Caller | None:
        """Whose token it is; None for nobody's.

        Raises:
            ApiError: the API server does not say.
            TooManyTokens
        """
        # Kept by its digest: a token is nothing to leave about in memory.
        return await self._callers.get(
            hashlib.sha256(token.encode()).hexdigest(), lambda: self._review_token(token)
        )

    async def may(self, caller: Caller, question: Question) -> bool:
        """Raises ApiError where the API server does not say."""
        return await self._answers.get((caller, question), lambda: self._review_access(caller, question))

    async def _review_token(self, token: str) -> Caller | None:
        now = self._clock()
        if len(self._looked_up) == TOKENS_A_SECOND and now - self._looked_up[0] < 1.0:
            raise TooManyTokens
        self._looked_up.append(now)
        status = await self._ask(_TOKENS, "authentication.k8s.io/v1", "TokenReview", {"token": token})
        if not status.get("authenticated"):
            return None
        user = status.get("user") or {}
        extra = {str(key): tuple(map(str, values)) for key, values in (user.get("extra") or {}).items()}
        groups = tuple(map(str, user.get("groups") or ()))
        return with_group(
            Caller(str(user["username"]), str(user.get("uid", "")), groups, tuple(sorted(extra.items())))
        )

    async def _review_access(self, caller: Caller, question: Question) -> bool:
        """The same attributes as the API server has judged by: it takes the metric for a subresource."""
        attributes = {
            "namespace": question.namespace,
            "verb": "get",
            "group": wire.GROUP,
            "version": question.version,
            "resource": wire.RESOURCE,
            "subresource": question.metric,
            "name": question.name,
        }
        spec = {
            "resourceAttributes": attributes,
            "user": caller.user,
            "uid": caller.uid,
            "groups": list(caller.groups),
            "extra": {key: list(values) for key, values in caller.extra},
        }
        status = await self._ask(_ACCESS, "authorization.k8s.io/v1", "SubjectAccessReview", spec)
        return bool(status.get("allowed"))

    async def _ask(self, path: str, version: str, kind: str, spec: dict[str, Any]) -> dict[str, Any]:
        answer = await self._client.create(path, {"apiVersion": version, "kind": kind, "spec": spec})
        return answer.get("status") or {}
