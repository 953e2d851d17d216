"""OpenTelemetry tracing: exports one span per speech request to OTEL_EXPORTER_OTLP_ENDPOINT.

Needs the packages of the ``otel`` extra, so this module is imported only when tracing is enabled.
"""

from __future__ import annotations

import os
import time

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanKind, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from server.telemetry.record import RequestRecord
from server.version import version

_EXPORT_SECONDS = 3.0
"""Export timeout. It bounds how long a collector that does not answer delays shutdown."""
_SERVER_ERRORS = frozenset({"failed", "timed_out", "unavailable"})


class Tracing:
    """Creates a span when a request ends. A background thread exports the spans."""

    def __init__(self) -> None:
        name = os.environ.get("OTEL_SERVICE_NAME") or "sonant"
        self._provider = TracerProvider(resource=Resource.create({"service.name": name, "service.version": version()}))
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(timeout=_EXPORT_SECONDS)))
        self._tracer = self._provider.get_tracer("sonant")

    def ended(self, record: RequestRecord) -> None:
        """Create the span of a finished speech request."""
        started = time.time_ns() - _nanoseconds(record.seconds)
        span = self._tracer.start_span(
            f"{record.method} {record.path}",
            context=TraceContextTextMapPropagator().extract({"traceparent": record.traceparent}),
            kind=SpanKind.SERVER,
            attributes={f"sonant.{name}": value for name, value in record.fields().items()},
            start_time=started,
        )
        for event, seconds in (("first_audio", record.first_audio), ("onset", record.onset)):
            if seconds is not None:
                span.add_event(event, timestamp=started + _nanoseconds(seconds))
        if record.outcome in _SERVER_ERRORS:
            span.set_status(StatusCode.ERROR, record.failure)
        span.end(started + _nanoseconds(record.seconds))

    def close(self) -> None:
        """Export the remaining spans and stop the exporter. Blocks."""
        self._provider.shutdown()


def _nanoseconds(seconds: float) -> int:
    return round(seconds * 1e9)
