"""OpenTelemetry: one span a reconcile, below it one for each write, sent over OTLP/HTTP.

Off unless one of :data:`ENDPOINTS` is set; then it needs the extra ``otel``. Everything else (service name, sampling,
headers, limits) is set by the SDK's own variables. Off, nothing of it is imported and nothing runs.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from llmservice_operator.api import names
from llmservice_operator.api.cache_key import CacheKey
from llmservice_operator.controller import Outcome
from llmservice_operator.live import kinds
from llmservice_operator.live.client import Client, Written
from llmservice_operator.live.store import Key, Store

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Tracer

ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
FLUSH = 0.5  # seconds at the end for what was not sent yet

Handle = Callable[[Key | CacheKey], Awaitable[Outcome]]

logger = logging.getLogger(__name__)


def provider() -> TracerProvider | None:
    """None where nobody asked for traces, or the extra is missing."""
    asked = next((name for name in ENDPOINTS if os.environ.get(name)), None)
    if asked is None:
        return None
    os.environ.setdefault("OTEL_SERVICE_NAME", names.MANAGER)
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        logger.warning("%s is set, but no traces are sent: pip install 'llmservice[otel]'", asked)
        return None
    made = TracerProvider()
    made.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    logger.info("traces go where %s says", asked)
    return made


def flush(provider: TracerProvider) -> None:
    """Send what is left, within :data:`FLUSH`: a collector that is away holds up no end."""
    last = threading.Thread(target=provider.shutdown, daemon=True)
    last.start()
    last.join(FLUSH)


def reconciles(tracer: Tracer, store: Store, handle: Handle) -> Handle:
    """``handle``, each call in a span."""

    async def traced(key: Key | CacheKey) -> Outcome:
        with tracer.start_as_current_span("reconcile", attributes={"object": str(key)}) as span:
            body = None if isinstance(key, CacheKey) else store.get(kinds.LLMSERVICE, *key)
            if body is not None:
                span.set_attribute("generation", body["metadata"]["generation"])
            outcome = await handle(key)
            span.set_attribute("outcome", outcome.next.value)
            return outcome

    return traced


class TracedClient(Client):
    """Its writes are spans of the reconcile that makes them."""

    def __init__(self, tracer: Tracer, *given: Any) -> None:
        super().__init__(*given)
        self._tracer = tracer

    async def _call(self, method: str, path: str, **given: Any) -> Written:
        _, _, within = path.partition("/namespaces/")
        _, *resource = within.split("/")  # plural, name, subresource
        if method == "GET" or "leases" in resource:
            return await super()._call(method, path, **given)
        name = "/".join(resource[::2])
        with self._tracer.start_as_current_span(f"{method} {name}", attributes={"url.path": path}):
            return await super()._call(method, path, **given)
