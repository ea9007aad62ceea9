"""Run a scenario as a closed loop and sum it up."""

from __future__ import annotations

import asyncio
import random
import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import chain, pairwise
from typing import Any

import aiohttp

from llmservice_engine.bench.client import Client, Outcome
from llmservice_engine.bench.scenarios import SCENARIOS, Scenario


@dataclass(frozen=True, slots=True)
class Summary:
    """Milliseconds and tokens a second, over all requests of one scenario that did not fail."""

    scenario: str
    about: str
    requests: int
    errors: int
    seconds: float
    output_tokens: int
    output_tokens_per_s: float
    decode_tokens_per_s: float  # of one request after its first token, mean
    ttft_p50_ms: float
    ttft_p99_ms: float
    itl_p50_ms: float  # between two events with text
    itl_p99_ms: float
    first_error: str | None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


async def run(base_url: str, model: str | None, names: Sequence[str], seed: int) -> list[Summary]:
    """Run the named scenarios one after another.

    Raises:
        RuntimeError: the server cannot be reached or does not serve completions.
    """
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=600)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(timeout=timeout, connector=connector) as session:
        client = Client(session, base_url, model or await _first_model(session, base_url))
        await client.find_prompt_form()
        # Another seed a scenario: what one has left in a cache is of no use to the next.
        return [await _scenario(client, SCENARIOS[name](random.Random(f"{name}-{seed}"))) for name in names]


async def _first_model(session: aiohttp.ClientSession, base_url: str) -> str:
    url = base_url.rstrip("/") + "/v1/models"
    try:
        async with session.get(url) as response:
            if response.status != 200:
                raise RuntimeError(f"{url} answers {response.status}: is the model loaded?")
            return str((await response.json())["data"][0]["id"])
    except aiohttp.ClientError as error:
        raise RuntimeError(f"cannot reach {url}: {error}") from None


async def _scenario(client: Client, scenario: Scenario) -> Summary:
    waiting = iter(scenario.asks)

    async def worker() -> list[Outcome]:
        return [await client.ask(ask) for ask in waiting]  # shared: each request is taken once

    begun = time.monotonic()
    outcomes = await asyncio.gather(*(worker() for _ in range(scenario.in_flight)))
    return summarise(scenario, list(chain.from_iterable(outcomes)), time.monotonic() - begun)


def summarise(scenario: Scenario, outcomes: Sequence[Outcome], seconds: float) -> Summary:
    """Pure: the figures of a scenario that took ``seconds``."""
    good = [outcome for outcome in outcomes if outcome.error is None]
    firsts = [outcome.texts_at[0] - outcome.begun_at for outcome in good if outcome.texts_at]
    gaps = [later - sooner for outcome in good for sooner, later in pairwise(outcome.texts_at)]
    decode = [
        (outcome.output_tokens - 1) / (outcome.texts_at[-1] - outcome.texts_at[0])
        for outcome in good
        if len(outcome.texts_at) > 1
    ]
    tokens = sum(outcome.output_tokens for outcome in good)
    return Summary(
        scenario=scenario.name,
        about=scenario.about,
        requests=len(outcomes),
        errors=len(outcomes) - len(good),
        seconds=round(seconds, 3),
        output_tokens=tokens,
        output_tokens_per_s=round(tokens / seconds, 1),
        decode_tokens_per_s=round(statistics.fmean(decode), 1) if decode else 0.0,
        ttft_p50_ms=_milliseconds(firsts, 50),
        ttft_p99_ms=_milliseconds(firsts, 99),
        itl_p50_ms=_milliseconds(gaps, 50),
        itl_p99_ms=_milliseconds(gaps, 99),
        first_error=next((outcome.error for outcome in outcomes if outcome.error), None),
    )


def _milliseconds(seconds: Sequence[float], percentile: int) -> float:
    """The nearest-rank percentile."""
    if not seconds:
        return 0.0
    rank = max(1, -(-len(seconds) * percentile // 100))
    return round(sorted(seconds)[rank - 1] * 1000, 1)
