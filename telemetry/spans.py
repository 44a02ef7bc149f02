"""The working form of tracing: a tracer provider of our own, never the global one, so that nothing else is traced."""

from contextlib import AbstractContextManager, nullcontext
from importlib.metadata import version
from threading import Thread
from typing import Final

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor, SpanExporter
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, set_span_in_context, use_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.util.types import AttributeValue

from telemetry import semconv
from telemetry.traces import Tracing
from telemetry.turn import TurnRecord, cut
from wire.errors import CLIENT_ERROR, SERVER_ERROR

_W3C: Final = TraceContextTextMapPropagator()
_OWN_FIELDS: Final = (
    "request_id", "transport", "reason", "envelope_changed", "tenant", "link", "items_total", "items_covered",
    "items_sent", "client_bytes", "upstream_bytes", "overhead_s", "first_event_s", "events", "client_gone",
)  # fmt: skip


class SpanTracing(Tracing):
    """Spans that go through `processor`. The handle of a turn is its OpenTelemetry span."""

    def __init__(self, processor: SpanProcessor) -> None:
        release = version("deltawire")
        resource = Resource.create({SERVICE_VERSION: release})
        if str(resource.attributes[SERVICE_NAME]).startswith("unknown_service"):
            # Only the default is replaced: a name that the operator gave by OTEL_SERVICE_NAME stays.
            resource = resource.merge(Resource({SERVICE_NAME: "deltawire"}))
        # Its own exit hook would block for half a minute on a dead collector.
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(processor)
        self._tracer = self._provider.get_tracer("deltawire", release, attributes={"semconv": semconv.VERSION})

    @classmethod
    def to_endpoint(cls, endpoint: str) -> "SpanTracing":
        """Batches by OTLP over HTTP to the full URL `endpoint`, from a thread of its own."""
        return cls(BatchSpanProcessor(OTLPSpanExporter(endpoint=endpoint)))

    @classmethod
    def to_exporter(cls, exporter: SpanExporter) -> "SpanTracing":
        """Each span to `exporter` as it ends, on the thread that ends it."""
        return cls(SimpleSpanProcessor(exporter))

    def start(self, traceparent: str | None, tracestate: str | None, *, route: str = "/v1/responses") -> Span:
        """A server span; a missing or malformed `traceparent` starts a trace of its own."""
        carrier = {"traceparent": traceparent or "", "tracestate": tracestate or ""}
        return self._tracer.start_span(
            semconv.OPERATION_CHAT,
            # An explicit context: whatever span the process has open is not the client's.
            context=_W3C.extract(carrier, context=Context()),
            kind=SpanKind.SERVER,
            attributes={
                semconv.GEN_AI_OPERATION_NAME: semconv.OPERATION_CHAT,
                semconv.GEN_AI_PROVIDER_NAME: semconv.PROVIDER_OPENAI,
                semconv.HTTP_REQUEST_METHOD: "POST",
                semconv.HTTP_ROUTE: route,
            },
        )

    def finish(self, handle: Span | None, record: TurnRecord) -> None:
        """A span that the client does not sample costs next to nothing here."""
        if handle is None:
            return
        if handle.is_recording():
            if record.model:
                handle.update_name(f"{semconv.OPERATION_CHAT} {cut(record.model)}")
            handle.set_attributes(_attributes(record))
            if _is_error(record):
                handle.set_status(Status(StatusCode.ERROR))
        handle.end()

    def current(self, handle: Span | None) -> AbstractContextManager[object]:
        """The span is current inside; leaving does not end it, nor record what was raised."""
        if handle is None:
            return nullcontext()
        # Exceptions carry text that a span must not: the record says what failed.
        return use_span(handle, end_on_exit=False, record_exception=False, set_status_on_exception=False)

    def headers(self, handle: Span | None) -> dict[str, str]:
        """The span itself as the parent of what the upstream does, and the client's trace state if it was valid."""
        carrier: dict[str, str] = {}
        if handle is not None:
            _W3C.inject(carrier, context=set_span_in_context(handle, Context()))
        return carrier

    def shutdown(self, timeout: float) -> bool:
        """Waits for the exporter on a thread that is left behind after `timeout` seconds."""
        # The SDK offers no bound of its own here; a daemon thread does not keep the process either.
        worker = Thread(target=self._provider.shutdown, name="deltawire-traces-shutdown", daemon=True)
        worker.start()
        worker.join(timeout)
        return not worker.is_alive()


def _is_error(record: TurnRecord) -> bool:
    # By the HTTP conventions a 4xx is the client's error and leaves a server's span unset.
    if CLIENT_ERROR <= record.status < SERVER_ERROR:
        return False
    return record.failed or bool(record.upstream_error)


def _attributes(record: TurnRecord) -> dict[str, AttributeValue]:
    status = str(record.status) if record.status >= CLIENT_ERROR else ""
    given: dict[str, AttributeValue | None] = {
        semconv.GEN_AI_REQUEST_MODEL: record.model or None,
        semconv.GEN_AI_REQUEST_STREAM: record.stream,
        semconv.GEN_AI_RESPONSE_ID: record.response_id or None,
        semconv.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK: record.first_event_s if record.stream else None,
        semconv.GEN_AI_USAGE_INPUT_TOKENS: record.usage_input,
        semconv.GEN_AI_USAGE_OUTPUT_TOKENS: record.usage_output,
        semconv.GEN_AI_USAGE_CACHE_READ_INPUT_TOKENS: record.usage_cached,
        semconv.HTTP_RESPONSE_STATUS_CODE: record.status or None,
        semconv.ERROR_TYPE: record.error or record.upstream_error or status or None,
        semconv.DELTAWIRE_PREFIX + "retries": record.retries or None,
    }
    for name in _OWN_FIELDS:
        own = getattr(record, name)
        given[semconv.DELTAWIRE_PREFIX + name] = None if own == "" else own
    return {key: cut(one) if isinstance(one, str) else one for key, one in given.items() if one is not None}
