"""Asks the engines for their figures: each pod once in an interval, however many autoscalers want to know.

Only pods that somebody asks about are asked, so a service that is not scaled costs nothing. A pod that hangs, lies
or sends without end is one that does not answer.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

import aiohttp
from prometheus_client import Counter

from llmservice_operator.api import contract
from llmservice_operator.metrics_api import figures
from llmservice_operator.metrics_api.figures import Reading
from llmservice_operator.metrics_api.pods import Pod
from llmservice_operator.metrics_api.recent import Recent

INTERVAL = 5.0  # seconds in which a pod is asked once
LIMIT = 1.5  # seconds for an answer, the last byte included
LARGEST = 4 * 2**20  # bytes of an answer
LOOKED_AT = (
    64 * 2**10
)  # bytes of it that are kept: the few lines that are looked at, and the one that is coming
AT_ONCE = 128  # pods asked at the same time
REMEMBERED = 20_000  # pods

SCRAPES = Counter("llmservice_metrics_api_scrapes", "Pods asked for their figures", ["result"])

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a pod said, and when it was asked."""

    reading: Reading
    taken: datetime


def session() -> aiohttp.ClientSession:
    """For :class:`Scraper`: no credentials, no proxy, and nothing is unpacked that a liar may have packed."""
    connector = aiohttp.TCPConnector(limit=AT_ONCE, limit_per_host=2)
    return aiohttp.ClientSession(connector=connector, auto_decompress=False, trust_env=False)


class Scraper:
    def __init__(
        self,
        session: aiohttp.ClientSession,
        port: int = contract.PORT,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._session = session
        self._port = port
        self._recent: Recent[str, Answer | None] = Recent(INTERVAL, REMEMBERED, clock)
        self._free = asyncio.Semaphore(AT_ONCE)

    async def ask(self, pods: Sequence[Pod]) -> list[Answer]:
        """The answers of those that answer, none of them older than the interval."""
        found = await asyncio.gather(*(self._recent.get(pod.uid, partial(self._scrape, pod)) for pod in pods))
        return [answer for answer in found if answer is not None]

    async def _scrape(self, pod: Pod) -> Answer | None:
        async with self._free:
            taken = datetime.now(UTC)
            try:
                async with asyncio.timeout(LIMIT):
                    reading = figures.read(await self._text(pod))
            except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
                SCRAPES.labels("silent").inc()
                logger.info(
                    "pod %s/%s does not tell: %s", pod.namespace, pod.name, error or type(error).__name__
                )
                return None
        SCRAPES.labels("answered").inc()
        return Answer(reading, taken)

    async def _text(self, pod: Pod) -> str:
        host = f"[{pod.address}]" if ":" in pod.address else pod.address
        headers = {"Accept": "text/plain;version=0.0.4", "Accept-Encoding": "identity"}
        async with self._session.get(
            f"http://{host}:{self._port}/metrics", headers=headers, allow_redirects=False
        ) as answer:
            if answer.status != 200:
                raise ValueError(f"status {answer.status}")
            return await _lines(answer.content)


async def _lines(content: aiohttp.StreamReader) -> str:
    """The lines that are looked at. So many pods answer at once that their answers are never kept whole."""
    kept, rest, size = b"", b"", 0
    async for chunk in content.iter_any():
        size += len(chunk)
        *whole, rest = (rest + chunk).split(b"\n")
        kept += b"".join(line + b"\n" for line in whole if line.startswith(figures.LINES))
        if size > LARGEST or len(kept) + len(rest) > LOOKED_AT:
            raise ValueError(
                f"more than {LARGEST} bytes, or {LOOKED_AT} of one line or of the metrics looked at"
            )
    return (kept + rest).decode(errors="replace")
