"""The operator's figures about itself. Gauges are read when somebody asks for them: no event pays for one."""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterable, Iterator

from prometheus_client import REGISTRY, Counter, Gauge
from prometheus_client.metrics_core import GaugeMetricFamily
from prometheus_client.registry import Collector

from llmservice_operator.live.store import Body

QUEUE_DEPTH = Gauge("llmservice_operator_queue_depth", "Objects that wait for a worker")
QUEUE_AGE = Gauge("llmservice_operator_queue_age_seconds", "How long the oldest of them has waited")
LEADER = Gauge("llmservice_operator_leader", "1 where this replica leads, and so acts")
IDLE = Gauge(
    "llmservice_operator_idle",
    "1 where this replica would lead, but another cluster-wide install serves the cluster",
)
WATCH_SILENCE = Gauge(
    "llmservice_operator_watch_silence_seconds",
    "Since when the quietest watch was not heard of; each is renewed every 240 s, and 480 s end the process",
)
RETRIES = Counter(
    "llmservice_operator_retries", "Reconciles that failed and were put back into the queue with a delay"
)
RELISTS = Counter(
    "llmservice_operator_relists", "Full lists of a kind, by result: listed or failed", ["kind", "result"]
)


class Objects(Collector):
    """LLMServices by their conditions' types and statuses, counted at each scrape."""

    def __init__(self) -> None:
        self.services: Callable[[], Iterable[Body]] = tuple

    def describe(self) -> Iterator[GaugeMetricFamily]:
        yield GaugeMetricFamily(
            "llmservice_operator_objects",
            "LLMService objects known, by condition; each has a Ready, Unknown before its first status",
            labels=("condition", "status"),
        )

    def collect(self) -> Iterator[GaugeMetricFamily]:
        (family,) = self.describe()
        counted = collections.Counter(one for body in self.services() for one in _conditions(body))
        for labels, count in sorted(counted.items()):
            family.add_metric(labels, count)
        yield family


OBJECTS = Objects()
REGISTRY.register(OBJECTS)


def _conditions(body: Body) -> Iterator[tuple[str, str]]:
    said = {one["type"]: one["status"] for one in (body.get("status") or {}).get("conditions") or ()}
    yield from ({"Ready": "Unknown"} | said).items()
