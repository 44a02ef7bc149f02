import subprocess
import sys

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from telemetry.spans import SpanTracing
from telemetry.traces import Tracing
from telemetry.turn import TurnRecord

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
OFF = [
    {},
    {"OTEL_EXPORTER_OTLP_ENDPOINT": ""},
    {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_SDK_DISABLED": "true"},
    {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:9", "OTEL_SDK_DISABLED": " TRUE "},
    {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_TRACES_EXPORTER": "none"},
    {"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://127.0.0.1:9"},
]
ON = [
    {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"},
    {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:9/v1/traces", "OTEL_SDK_DISABLED": "false"},
]


@pytest.mark.parametrize("environ", OFF)
def test_without_an_endpoint_or_when_disabled_tracing_is_off(environ: dict[str, str]) -> None:
    assert type(Tracing.from_environment(environ)) is Tracing


@pytest.mark.parametrize("environ", ON)
def test_an_endpoint_switches_it_on(environ: dict[str, str]) -> None:
    tracing = Tracing.from_environment(environ)
    assert isinstance(tracing, SpanTracing)
    assert tracing.shutdown(5.0)


def test_an_explicit_exporter_switches_it_on() -> None:
    assert isinstance(Tracing.to_exporter(InMemorySpanExporter()), SpanTracing)


def test_off_accepts_every_call_and_offers_no_header_of_its_own() -> None:
    tracing = Tracing.from_environment({})
    handle = tracing.start(PARENT, "vendor=1")
    assert handle is None
    with tracing.current(handle):
        tracing.finish(handle, TurnRecord("req_1", status=200))
    assert tracing.headers(handle) == {}
    assert tracing.shutdown(0.0)


def test_off_is_free_opentelemetry_is_never_imported() -> None:
    code = """
import io, sys
from telemetry import lag, logs, metrics, recent, traces
from telemetry.turn import TurnRecord
logs.configure("info", io.BytesIO())
tracing = traces.Tracing.from_environment({"PATH": "/bin"})
handle, record = tracing.start(None, None), TurnRecord("req_1", status=200)
with tracing.current(handle):
    logs.turn_line(record)
metrics.Metrics().turn(record)
tracing.finish(handle, record)
tracing.shutdown(1.0)
print([name for name in sys.modules if name.startswith(("opentelemetry", "requests", "google"))])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
