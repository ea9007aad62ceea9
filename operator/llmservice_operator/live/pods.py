"""What a running pod of ours tells over HTTP: how far a copy is, and an engine's figures of its memory.

Nothing depends on an answer: where a network policy or a mesh stands between, the figures stay away. A pod is asked
at most once every few seconds, with a short limit, and an engine only until it has answered.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import aiohttp
from llmservice_planner import fit
from prometheus_client.parser import text_string_to_metric_families

from llmservice_operator.api import contract, copies
from llmservice_operator.live.store import Body

LIMIT = aiohttp.ClientTimeout(total=1.5)
AGAIN = 5.0  # seconds until a pod is asked again
LARGEST = 4 * 2**20  # bytes of an answer
_FIGURES = {
    "weights": "weights",
    "kv_cache": "kvCache",
    "activations": "activations",
    "overhead": "overhead",
    "available": "available",
}

logger = logging.getLogger(__name__)


class Pods:
    """Asks pods by their addresses. Answers are kept by UID until the pod is forgotten."""

    def __init__(self, session: aiohttp.ClientSession, clock: Callable[[], float] = time.monotonic) -> None:
        self._session = session
        self._clock = clock
        self._asked: dict[str, float] = {}
        self._copied: dict[str, int] = {}
        self._memory: dict[str, Mapping[str, Any]] = {}

    async def copied(self, pods: Iterable[Body]) -> int | None:
        """Bytes that a copying pod has copied, as of its last answer."""
        for pod in pods:
            if _address(pod) and self._may_ask(pod):
                text = await self._get(pod, copies.PROGRESS_PORT, "/progress")
                done = _bytes_done(text)
                if done is not None:
                    self._copied[_uid(pod)] = done
            if _uid(pod) in self._copied:
                return self._copied[_uid(pod)]
        return None

    async def memory(self, pods: Iterable[Body]) -> Mapping[str, Any] | None:
        """The figures of the first ready engine that has told them, in the fields of ``status.memory``."""
        for pod in pods:
            if _uid(pod) not in self._memory and _address(pod) and self._may_ask(pod):
                found = figures(await self._get(pod, contract.PORT, "/metrics"))
                if found is not None:
                    self._memory[_uid(pod)] = found
            if _uid(pod) in self._memory:
                return self._memory[_uid(pod)]
        return None

    def keep(self, uids: Iterable[str]) -> None:
        """Forget the pods that are gone."""
        kept = frozenset(uids)
        self._asked = {uid: at for uid, at in self._asked.items() if uid in kept}
        self._copied = {uid: done for uid, done in self._copied.items() if uid in kept}
        self._memory = {uid: told for uid, told in self._memory.items() if uid in kept}

    def _may_ask(self, pod: Body) -> bool:
        now = self._clock()
        if now - self._asked.get(_uid(pod), -AGAIN) < AGAIN:
            return False
        self._asked[_uid(pod)] = now
        return True

    async def _get(self, pod: Body, port: int, path: str) -> str:
        address = _address(pod)
        host = f"[{address}]" if ":" in address else address
        try:
            async with self._session.get(
                f"http://{host}:{port}{path}", timeout=LIMIT, allow_redirects=False
            ) as answer:
                if answer.status != 200:
                    return ""
                return (await answer.content.read(LARGEST)).decode(errors="replace")
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            logger.debug("pod %s does not tell: %s", pod["metadata"]["name"], error or type(error).__name__)
            return ""


def figures(text: str) -> dict[str, Any] | None:
    """``status.memory`` out of an engine's metrics; None where they do not hold it (another engine's)."""
    found: dict[str, Any] = {}
    try:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name == "llmservice:memory_bytes" and sample.labels.get("kind") in _FIGURES:
                    found[_FIGURES[sample.labels["kind"]]] = int(sample.value)
                elif sample.name == "llmservice:kv_cache_tokens":
                    found["kvTokens"] = int(sample.value)
                elif sample.name == "llmservice:kv_cache_sequences":
                    found["verdict"] = "Fits" if sample.value >= fit.TIGHT_SEQUENCES else "Tight"
    except ValueError:
        return None
    return found | {"source": "Measured"} if {"verdict", "weights", "kvTokens"} <= found.keys() else None


def _bytes_done(text: str) -> int | None:
    try:
        found = json.loads(text)
    except ValueError:
        return None
    done = found.get("bytesDone") if isinstance(found, dict) else None
    return done if isinstance(done, int) else None


def _address(pod: Body) -> str:
    status = pod.get("status", {})
    return str(status.get("podIP") or "") if status.get("phase") == "Running" else ""


def _uid(pod: Body) -> str:
    return str(pod["metadata"].get("uid", ""))
