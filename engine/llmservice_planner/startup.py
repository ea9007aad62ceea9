"""How long a start may take: the model's bytes over the read rate, times a factor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

PROCESS_SECONDS = (
    120  # interpreter, imports from a cold disk, warm-up: a start with no weights at all, with room
)
ASSUMED_BYTES_PER_SECOND = 100_000_000  # a plain network disk; `spec.startup.assumedBytesPerSecond` overrides
SAFETY_FACTOR = 2.0


@dataclass(frozen=True, slots=True)
class StartupBudget:
    deadline_seconds: int
    basis: Literal["Spec", "Derived", "Observed"]


def derive(model_bytes: int, bytes_per_second: int, safety_factor: float) -> StartupBudget:
    """The deadline for a model of ``model_bytes`` (an upper bound will do: it only lengthens the budget)."""
    reading = model_bytes / bytes_per_second
    return StartupBudget(round(PROCESS_SECONDS + reading * safety_factor), "Derived")


def observed(load_seconds: float, safety_factor: float) -> StartupBudget:
    """The deadline where an earlier start of the same model on the same devices took ``load_seconds``."""
    return StartupBudget(round(PROCESS_SECONDS + load_seconds * safety_factor), "Observed")
