"""Prometheus metrics under vLLM's names, so that dashboards, KEDA scalers and inference gateways work; ours apart."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from llmservice_planner.settings import EngineSettings
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from llmservice_engine.core.outputs import EngineInfo, EngineStats, FinishReason

if TYPE_CHECKING:
    from llmservice_engine.api.job import Choice, Job

LABELS = ("model_name", "engine")
ENGINE = "0"  # vLLM numbers its data-parallel engines; there is one here

# vLLM's buckets, with finer ones below: its floor of 10 ms hides what a fast GPU does between two tokens.
_FIRST_TOKEN = (
    0.001, 0.0025, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160,
    640, 2560,
)  # fmt: skip
_BETWEEN_TOKENS = (
    0.001, 0.002, 0.003, 0.004, 0.006, 0.008, 0.01, 0.015, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1,
    2.5, 5, 7.5, 10, 20, 40, 80,
)  # fmt: skip
_WHOLE_REQUEST = (
    0.05, 0.1, 0.2, 0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680,
)  # fmt: skip
_STEP_TOKENS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
_HTTP_SECONDS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 60, 300)
_CONTEXT = 1_048_576  # the longest context that the token buckets tell apart

Stats = Callable[[], EngineStats]


def _decades(limit: int) -> tuple[int, ...]:
    """1, 2, 5, 10, 20, 50, … up to ``limit``."""
    steps = (factor * 10**power for power in range(8) for factor in (1, 2, 5))
    return tuple(step for step in steps if step <= limit)


class _EngineGauges(Collector):
    """Read from the engine when someone asks: exact when idle too, and free for the steps."""

    def __init__(self, model_name: str) -> None:
        self.stats: Stats | None = None
        self._model_name = model_name

    def collect(self) -> Iterator[Metric]:
        stats = self.stats() if self.stats is not None else EngineStats(0, 0, 0.0, 0, 0, 0)
        gauges: tuple[tuple[str, str, float], ...] = (
            ("vllm:num_requests_running", "Requests in the batch.", stats.running),
            ("vllm:num_requests_waiting", "Requests queued.", stats.waiting),
            ("vllm:kv_cache_usage_perc", "Share of the KV cache's blocks in use, 0 to 1.", stats.kv_usage),
        )
        for name, text, value in gauges:
            gauge = GaugeMetricFamily(name, text, labels=LABELS)
            gauge.add_metric((self._model_name, ENGINE), value)
            yield gauge
        preemptions = CounterMetricFamily(
            "vllm:num_preemptions", "Requests sent back to the queue.", labels=LABELS
        )
        preemptions.add_metric((self._model_name, ENGINE), stats.preemptions)
        yield preemptions


class Metrics:
    """All of ``/metrics``. There from the first second; the model's figures follow when it is loaded."""

    def __init__(self, model_name: str) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # a timestamp for each series, which nobody reads
        self.registry = CollectorRegistry()
        self._model_name = model_name
        self._gauges = _EngineGauges(model_name)
        self.registry.register(self._gauges)
        self._prompt_tokens = self._counter("vllm:prompt_tokens", "Prompt tokens computed.")
        self._generated = self._counter("vllm:generation_tokens", "Tokens generated.")
        success = Counter(
            "vllm:request_success", "Ended requests.", (*LABELS, "finished_reason"), registry=self.registry
        )
        self._ended = {reason: success.labels(model_name, ENGINE, reason.value) for reason in FinishReason}
        seconds = self._histogram
        self._first = seconds("vllm:time_to_first_token_seconds", "Arrival to first token.", _FIRST_TOKEN)
        self._between = seconds("vllm:inter_token_latency_seconds", "Between two tokens.", _BETWEEN_TOKENS)
        self._per_token = seconds(
            "vllm:request_time_per_output_token_seconds",
            "Mean time per token after the first.",
            _BETWEEN_TOKENS,
        )
        self._whole = seconds("vllm:e2e_request_latency_seconds", "Arrival to last token.", _WHOLE_REQUEST)
        tokens = _decades(_CONTEXT)
        self._prompt_sizes = self._histogram("vllm:request_prompt_tokens", "Prompt tokens a request.", tokens)
        self._answer_sizes = self._histogram(
            "vllm:request_generation_tokens", "Tokens generated a request.", tokens
        )
        self._wanted = self._histogram("vllm:request_params_max_tokens", "max_tokens of a request.", tokens)
        self._steps = self._histogram("vllm:iteration_tokens_total", "Tokens in one step.", _STEP_TOKENS)
        self._load = self._gauge("llmservice:model_load_seconds", "Seconds that loading took.")
        self._memory = Gauge(
            "llmservice:memory_bytes",
            "Memory of one device: weights, kv_cache, activations, overhead, and what was available.",
            (*LABELS, "kind"),
            registry=self.registry,
        )
        self._kv_tokens = self._gauge("llmservice:kv_cache_tokens", "Tokens that the KV cache holds.")
        self._kv_sequences = self._gauge(
            "llmservice:kv_cache_sequences", "Sequences of the longest length that the KV cache holds."
        )
        self._http = Counter(
            "http_requests", "HTTP requests.", ("handler", "method", "status"), registry=self.registry
        )
        self._http_seconds = Histogram(
            "http_request_duration_seconds", "Whole HTTP requests.", ("handler", "method"),
            buckets=_HTTP_SECONDS, registry=self.registry,
        )  # fmt: skip

    def text(self) -> bytes:
        return generate_latest(self.registry)

    def loaded(self, info: EngineInfo, stats: Stats, settings: EngineSettings) -> None:
        self._gauges.stats = stats
        self._load.set(info.load_seconds)
        told = {
            "weights": info.weight_bytes,
            "kv_cache": info.kv_bytes,
            "activations": info.activation_bytes,
            "overhead": info.overhead_bytes,
            "available": info.available_bytes,
        }
        for kind, count in told.items():
            self._memory.labels(self._model_name, ENGINE, kind).set(count)
        self._kv_tokens.set(info.blocks * info.block_size)
        self._kv_sequences.set(info.blocks * info.block_size / info.max_model_len)
        values = {
            "block_size": info.block_size,
            "num_gpu_blocks": info.blocks,
            "cache_dtype": info.dtype,
            "gpu_memory_utilization": settings.gpu_memory_utilization,
        }
        config = Gauge("vllm:cache_config_info", "The KV cache.", (*LABELS, *values), registry=self.registry)
        config.labels(self._model_name, ENGINE, *map(str, values.values())).set(1)

    def step(self, stats: EngineStats) -> None:
        if stats.step_tokens:
            self._steps.observe(stats.step_tokens)

    def tokens(self, job: Job, choice: Choice, new: int, now: float) -> None:
        """``choice`` has ``new`` more tokens. Keeps the choice's own clock."""
        if not new or not job.counted:
            return
        self._generated.inc(new)
        if choice.last_token_at is None:
            choice.first_token_at = now
            self._prompt_tokens.inc(len(choice.prompt))
            self._first.observe(now - job.arrived_at)
        else:
            self._between.observe(now - choice.last_token_at)
        choice.last_token_at = now

    def finished(self, job: Job, choice: Choice, reason: FinishReason, now: float) -> None:
        if not job.counted:
            return
        self._ended[reason].inc()
        self._whole.observe(now - job.arrived_at)
        self._prompt_sizes.observe(len(choice.prompt))
        self._answer_sizes.observe(choice.tokens)
        self._wanted.observe(choice.params.max_tokens)
        if choice.tokens > 1 and choice.first_token_at is not None and choice.last_token_at is not None:
            self._per_token.observe((choice.last_token_at - choice.first_token_at) / (choice.tokens - 1))

    def http(self, handler: str, method: str, status: int, seconds: float) -> None:
        self._http.labels(handler, method, str(status)).inc()
        self._http_seconds.labels(handler, method).observe(seconds)

    def _counter(self, name: str, text: str) -> Counter:
        return Counter(name, text, LABELS, registry=self.registry).labels(self._model_name, ENGINE)

    def _gauge(self, name: str, text: str) -> Gauge:
        return Gauge(name, text, LABELS, registry=self.registry).labels(self._model_name, ENGINE)

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(name, text, LABELS, buckets=buckets, registry=self.registry).labels(
            self._model_name, ENGINE
        )
