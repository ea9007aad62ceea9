"""The four loads. Prompts are random tokens, so that no cache and no stop token helps or hurts anyone."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass

_LOW_ID, _HIGH_ID = 1_000, 20_000  # ordinary tokens in every vocabulary of 20,000 and more


@dataclass(frozen=True, slots=True)
class Ask:
    """One request."""

    prompt: tuple[int, ...]
    output_tokens: int


@dataclass(frozen=True, slots=True)
class Scenario:
    """Requests, and how many of them are in flight at once (closed loop)."""

    name: str
    about: str
    in_flight: int
    asks: tuple[Ask, ...]


def _tokens(rng: random.Random, count: int) -> tuple[int, ...]:
    return tuple(rng.randrange(_LOW_ID, _HIGH_ID) for _ in range(count))


def single(rng: random.Random) -> Scenario:
    asks = tuple(Ask(_tokens(rng, 128), 128) for _ in range(4))
    return Scenario("single", "4 requests one after another, 128 in, 128 out", 1, asks)


def concurrent(rng: random.Random, in_flight: int) -> Scenario:
    asks = tuple(Ask(_tokens(rng, rng.randint(64, 256)), rng.randint(32, 128)) for _ in range(2 * in_flight))
    about = f"{in_flight} in flight, {2 * in_flight} requests, 64-256 in, 32-128 out"
    return Scenario(f"c{in_flight}", about, in_flight, asks)


def prefix(rng: random.Random) -> Scenario:
    shared = _tokens(rng, 512)
    asks = tuple(Ask(shared + _tokens(rng, 32), 32) for _ in range(32))
    return Scenario("prefix", "32 at once, 512 shared and 32 own tokens in, 32 out, cold", 32, asks)


SCENARIOS: Mapping[str, Callable[[random.Random], Scenario]] = {
    "single": single,
    "c16": lambda rng: concurrent(rng, 16),
    "c64": lambda rng: concurrent(rng, 64),
    "prefix": prefix,
}
