"""What the operator and every engine pod have agreed on."""

from __future__ import annotations

PORT = 8000  # of the container; the Service's is spec.expose.service.port

PRE_STOP_SECONDS = 5  # the pod still serves while Services and proxies learn that it is going
EXIT_SECONDS = 15  # from the end of the drain to the end of the process


def grace_seconds(drain_seconds: int) -> int:
    """How long a pod gets to end: it never cuts the drain short."""
    return PRE_STOP_SECONDS + drain_seconds + EXIT_SECONDS


# What a HorizontalPodAutoscaler asks of an LLMService, by spec.autoscaling.metric. Each is the total of all replicas
# (per cent too), because an AverageValue target divides by their number.
SCALING_METRICS = {
    "WaitingRequests": "num_requests_waiting",
    "InFlightRequests": "num_requests_in_flight",
    "KVCachePercent": "kv_cache_usage_percent",
}
METRICS_GROUP = "custom.metrics.k8s.io"  # in which it asks
METRICS_VERSIONS = ("v1beta2", "v1beta1")  # the preferred one first
