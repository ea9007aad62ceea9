"""What one engine's ``/metrics`` says, and what that makes for all replicas together. Pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

from prometheus_client.parser import text_string_to_metric_families

from llmservice_operator.api import contract

Reading = Mapping[str, float]  # metric of contract.SCALING_METRICS → this pod's value

MOST_REQUESTS = 1e6  # that one pod can have; more is no figure of an engine
_FULL = 1.001  # share of a cache in use: 1, and what rounding may add

_WAITING = "vllm:num_requests_waiting"
_RUNNING = "vllm:num_requests_running"
_USAGE = "vllm:kv_cache_usage_perc"  # a share in spite of its name
_OLDER_USAGE = "vllm:gpu_cache_usage_perc"  # vLLM before 0.10
_LARGEST = {_WAITING: MOST_REQUESTS, _RUNNING: MOST_REQUESTS, _USAGE: _FULL, _OLDER_USAGE: _FULL}

LINES = tuple(name.encode() for name in _LARGEST)  # what each line that is looked at begins with


class Untrue(ValueError):
    """These are no figures of an engine."""


class TooFewAnswers(Exception):
    """So few pods answer that their mean says nothing of the others."""

    def __init__(self, answered: int, ready: int) -> None:
        super().__init__(f"{answered} of {ready} ready pods answer, and half of them are needed")
        self.answered = answered
        self.ready = ready


def read(text: str) -> Reading:
    """The figures of one engine; what it does not tell is left out.

    A pod may run several engines, each with series of its own: requests add up, shares of caches are averaged.

    Raises:
        Untrue: a figure that cannot be (negative, not a number, huge), or no metrics at all.
    """
    series = _series(text)
    found: dict[str, float] = {}
    if waiting := series.get(_WAITING):
        found[contract.SCALING_METRICS["WaitingRequests"]] = sum(waiting)
        if running := series.get(_RUNNING):
            found[contract.SCALING_METRICS["InFlightRequests"]] = sum(waiting) + sum(running)
    if shares := series.get(_USAGE) or series.get(_OLDER_USAGE):
        found[contract.SCALING_METRICS["KVCachePercent"]] = 100 * sum(shares) / len(shares)
    if not found:
        raise Untrue("no metric that autoscaling knows")
    return found


def total(metric: str, readings: Collection[Reading], ready: int) -> float:
    """A metric's total over ``ready`` pods, of which these have answered: their mean, times all of them.

    So a pod that is silent counts as one like the others: not as idle, which would scale down under load.

    Raises:
        TooFewAnswers: less than half of the ready pods, or none.
    """
    values = [reading[metric] for reading in readings if metric in reading]
    if not values or 2 * len(values) < ready:
        raise TooFewAnswers(len(values), ready)
    return sum(values) / len(values) * ready


def quantity(value: float) -> str:
    """As Kubernetes writes it: no exponent, no fraction, thousandths at most."""
    thousandths = round(value * 1000)
    whole, rest = divmod(thousandths, 1000)
    return str(whole) if rest == 0 else f"{thousandths}m"


def _series(text: str) -> dict[str, list[float]]:
    """The values of the few metrics that are looked at. Only their lines are parsed: an engine writes thousands."""
    lines = [line for line in text.split("\n") if line.startswith(tuple(_LARGEST))]
    found: dict[str, list[float]] = {}
    try:
        for family in text_string_to_metric_families("\n".join([*lines, ""])):
            for sample in family.samples:
                if sample.name in _LARGEST:
                    found.setdefault(sample.name, []).append(_plausible(sample.name, float(sample.value)))
    except Untrue:
        raise
    except (ValueError, IndexError, KeyError, TypeError) as error:  # the parser's ways to say garbage
        raise Untrue(f"no metrics: {error}") from error
    return found


def _plausible(name: str, value: float) -> float:
    if not math.isfinite(value) or not 0 <= value <= _LARGEST[name]:
        raise Untrue(f"{name} is {value:g}")
    return value
