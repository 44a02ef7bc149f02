import asyncio
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from opentelemetry import trace
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from telemetry.semconv import VERSION
from telemetry.spans import SpanTracing
from telemetry.traces import Tracing
from telemetry.turn import MAX_TEXT, TurnRecord

TRACE_ID = "0af7651916cd43dd8448eb211c80319c"
PARENT_ID = "b7ad6b7169203331"
PARENT = f"00-{TRACE_ID}-{PARENT_ID}-01"


def done(**given: object) -> TurnRecord:
    record = TurnRecord("req_1", transport="delta", status=200, model="gpt-5", stream=True)
    for name, value in given.items():
        setattr(record, name, value)
    return record


def span_of(record: TurnRecord, traceparent: str | None = PARENT, tracestate: str | None = None) -> ReadableSpan:
    exporter = InMemorySpanExporter()
    tracing = SpanTracing.to_exporter(exporter)
    tracing.finish(tracing.start(traceparent, tracestate), record)
    (span,) = exporter.get_finished_spans()
    return span


def test_the_span_continues_the_clients_trace_as_a_server_span_named_by_the_model() -> None:
    span = span_of(done())
    assert span.name == "chat gpt-5"
    assert span.kind is SpanKind.SERVER
    assert span.parent is not None
    assert f"{span.parent.trace_id:032x}" == TRACE_ID
    assert f"{span.parent.span_id:016x}" == PARENT_ID
    assert span.parent.is_remote


@pytest.mark.parametrize("header", [None, "", "nonsense", f"00-{'0' * 32}-{PARENT_ID}-01", PARENT.upper(), "x" * 9999])
def test_a_missing_or_malformed_parent_starts_a_trace_of_its_own(header: str | None) -> None:
    span = span_of(done(), header, "vendor=1")
    assert span.parent is None
    assert span.context.trace_id != int(TRACE_ID, 16)


def test_a_span_that_happens_to_be_open_in_the_process_is_not_the_parent() -> None:
    other = SpanTracing.to_exporter(InMemorySpanExporter())
    with other.current(other.start(None, None)):
        assert span_of(done(), None).parent is None


def test_a_turn_that_the_client_does_not_sample_is_not_exported() -> None:
    exporter = InMemorySpanExporter()
    tracing = SpanTracing.to_exporter(exporter)
    handle = tracing.start(PARENT[:-1] + "0", None)
    assert tracing.headers(handle)["traceparent"].endswith("-00")
    tracing.finish(handle, done())
    assert exporter.get_finished_spans() == ()


def test_attributes_follow_the_conventions_and_the_rest_has_our_prefix() -> None:
    record = done(
        response_id="resp_1", link=4, items_total=9, items_covered=8, items_sent=1, client_bytes=1000, upstream_bytes=90,
        overhead_s=0.001, first_event_s=0.25, events=12, retries=("not_written",), usage_input=100, usage_output=7,
        usage_cached=80, tenant="0badcafe",
    )  # fmt: skip
    assert dict(span_of(record).attributes or {}) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-5",
        "gen_ai.request.stream": True,
        "gen_ai.response.id": "resp_1",
        "gen_ai.response.time_to_first_chunk": 0.25,
        "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.output_tokens": 7,
        "gen_ai.usage.cache_read.input_tokens": 80,
        "http.request.method": "POST",
        "http.response.status_code": 200,
        "http.route": "/v1/responses",
        "deltawire.client_bytes": 1000,
        "deltawire.client_gone": False,
        "deltawire.events": 12,
        "deltawire.first_event_s": 0.25,
        "deltawire.items_covered": 8,
        "deltawire.items_sent": 1,
        "deltawire.items_total": 9,
        "deltawire.link": 4,
        "deltawire.overhead_s": 0.001,
        "deltawire.request_id": "req_1",
        "deltawire.retries": ("not_written",),
        "deltawire.tenant": "0badcafe",
        "deltawire.transport": "delta",
        "deltawire.upstream_bytes": 90,
    }


def test_what_is_not_known_has_no_attribute() -> None:
    attributes = span_of(TurnRecord("req_1", first_event_s=0.2)).attributes or {}
    assert not [key for key in attributes if "usage" in key or "response" in key or "model" in key or "error" in key]
    assert "deltawire.reason" not in attributes
    assert "deltawire.link" not in attributes


def test_text_from_outside_is_cut_in_name_and_attributes() -> None:
    span = span_of(done(model="m" * 999, upstream_error="e" * 999))
    assert len(span.name) == len("chat ") + MAX_TEXT
    assert all(len(value) <= MAX_TEXT for value in (span.attributes or {}).values() if isinstance(value, str))


@pytest.mark.parametrize(
    ("given", "status", "error_type"),
    [
        ({}, StatusCode.UNSET, None),
        ({"client_gone": True, "status": 0}, StatusCode.UNSET, None),
        ({"status": 429, "upstream_error": "rate_limit_exceeded"}, StatusCode.UNSET, "rate_limit_exceeded"),
        ({"status": 404}, StatusCode.UNSET, "404"),
        ({"status": 413, "error": "body_too_large"}, StatusCode.UNSET, "body_too_large"),
        ({"status": 502, "error": "link_lost"}, StatusCode.ERROR, "link_lost"),
        ({"status": 503}, StatusCode.ERROR, "503"),
        ({"status": 200, "upstream_error": "server_error"}, StatusCode.ERROR, "server_error"),
        ({"status": 200, "error": "link_lost"}, StatusCode.ERROR, "link_lost"),
    ],
)
def test_the_status_says_who_failed(given: dict[str, object], status: StatusCode, error_type: str | None) -> None:
    span = span_of(done(**given))
    assert span.status.status_code is status
    assert span.status.description is None
    assert (span.attributes or {}).get("error.type") == error_type


def test_the_upstream_gets_the_span_as_parent_and_the_clients_trace_state() -> None:
    tracing = SpanTracing.to_exporter(InMemorySpanExporter())
    handle = tracing.start(PARENT, "vendor=1,other=2")
    own = f"{handle.get_span_context().span_id:016x}"
    assert tracing.headers(handle) == {"traceparent": f"00-{TRACE_ID}-{own}-01", "tracestate": "vendor=1,other=2"}
    assert tracing.headers(tracing.start(PARENT, None)).keys() == {"traceparent"}


def test_an_exception_that_passes_through_leaves_nothing_in_the_span() -> None:
    exporter = InMemorySpanExporter()
    tracing = SpanTracing.to_exporter(exporter)
    handle = tracing.start(PARENT, None)
    with pytest.raises(ValueError, match="prompt"), tracing.current(handle):
        raise ValueError("prompt")
    tracing.finish(handle, done())
    (span,) = exporter.get_finished_spans()
    assert span.events == ()
    assert span.status.status_code is StatusCode.UNSET


def test_no_handle_is_accepted_everywhere() -> None:
    tracing = SpanTracing.to_exporter(InMemorySpanExporter())
    with tracing.current(None):
        tracing.finish(None, done())
    assert tracing.headers(None) == {}


def test_the_global_provider_stays_untouched() -> None:
    before = trace.get_tracer_provider()
    span_of(done())
    assert trace.get_tracer_provider() is before


def test_the_service_has_our_name_unless_the_operator_gave_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OTEL_SERVICE_NAME", raising=False)
    monkeypatch.delenv("OTEL_RESOURCE_ATTRIBUTES", raising=False)
    assert span_of(done()).resource.attributes["service.name"] == "deltawire"
    monkeypatch.setenv("OTEL_SERVICE_NAME", "gateway")
    assert span_of(done()).resource.attributes["service.name"] == "gateway"


class Hanging(SpanExporter):
    """A collector that never answers; the test lets it go."""

    def __init__(self) -> None:
        self.release = threading.Event()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        raise AssertionError(f"{len(spans)} spans were not expected")

    def shutdown(self) -> None:
        self.release.wait()


def test_shutdown_does_not_wait_longer_than_told() -> None:
    exporter = Hanging()
    tracing = SpanTracing.to_exporter(exporter)
    assert not tracing.shutdown(0.01)
    exporter.release.set()


@contextmanager
def collector() -> Iterator[tuple[str, list[tuple[str, bytes]]]]:
    """An OTLP endpoint on loopback: its base URL, and the path and body of each request."""
    received: list[tuple[str, bytes]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the base class names it)
            del format, args

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", received
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    ("variable", "suffix", "path"),
    [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "", "/v1/traces"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "/base/", "/base/v1/traces"),
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "/own", "/own"),
    ],
)
async def test_an_otlp_endpoint_receives_the_span_with_the_clients_trace_id(
    variable: str, suffix: str, path: str
) -> None:
    with collector() as (url, received):
        tracing = Tracing.from_environment({variable: url + suffix})
        tracing.finish(tracing.start(PARENT, None), done(response_id="resp_1"))
        assert await asyncio.to_thread(tracing.shutdown, 10.0)
    ((where, body),) = received
    assert where == path
    (resource,) = ExportTraceServiceRequest.FromString(body).resource_spans
    (scope,) = resource.scope_spans
    (span,) = scope.spans
    assert span.trace_id.hex() == TRACE_ID
    assert span.parent_span_id.hex() == PARENT_ID
    assert span.name == "chat gpt-5"
    assert [(one.key, one.value.string_value) for one in scope.scope.attributes] == [("semconv", VERSION)]
