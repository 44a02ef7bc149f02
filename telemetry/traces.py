"""One span per turn, or nothing at all.

`Tracing` is the switched-off form: it does nothing and loads nothing. The working form lives in `telemetry.spans`,
which alone imports OpenTelemetry, and is itself imported only when an OTLP endpoint is set.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from typing import TYPE_CHECKING, Final, cast

from telemetry.turn import TurnRecord

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import Span

    import telemetry.spans

ENDPOINT: Final = "OTEL_EXPORTER_OTLP_ENDPOINT"
TRACES_ENDPOINT: Final = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
DISABLED: Final = "OTEL_SDK_DISABLED"
EXPORTER: Final = "OTEL_TRACES_EXPORTER"


class Tracing:
    """Tracing that is off. A handle is `None`, and every method takes it."""

    @staticmethod
    def from_environment(environ: Mapping[str, str]) -> "Tracing":
        """On when `environ` names an OTLP endpoint and does not disable the SDK or traces.

        Endpoint and switches are read from `environ`; headers, timeouts, sampling and resource attributes by the SDK
        from the process environment, under their standard names.
        """
        endpoint = _endpoint(environ)
        return Tracing() if endpoint is None else _spans().to_endpoint(endpoint)

    @staticmethod
    def to_exporter(exporter: "SpanExporter") -> "Tracing":
        """On, each span handed to `exporter` as it ends: for tests and for embedding."""
        return _spans().to_exporter(exporter)

    def start(self, traceparent: str | None, tracestate: str | None, *, route: str = "/v1/responses") -> "Span | None":
        """A span of a turn, child of the client's W3C `traceparent` where that is valid."""
        del traceparent, tracestate, route
        return None

    def finish(self, handle: "Span | None", record: TurnRecord) -> None:
        """Set name, attributes and status from the record, and end the span."""

    def current(self, handle: "Span | None") -> AbstractContextManager[object]:
        """While entered, log lines carry the ids of the span."""
        del handle
        return nullcontext()

    def headers(self, handle: "Span | None") -> dict[str, str]:
        """`traceparent`, and `tracestate` if any, to send upstream in place of the client's; none: send those."""
        del handle
        return {}

    def shutdown(self, timeout: float) -> bool:
        """Send what is left, blocking at most `timeout` seconds; true when all went through in that time."""
        del timeout
        return True


def _endpoint(environ: Mapping[str, str]) -> str | None:
    off = environ.get(DISABLED, "").strip().lower() == "true" or environ.get(EXPORTER, "").strip().lower() == "none"
    own, base = environ.get(TRACES_ENDPOINT, "").strip(), environ.get(ENDPOINT, "").strip()
    if off or not (own or base):
        return None
    return own or base.rstrip("/") + "/v1/traces"


def _spans() -> "type[telemetry.spans.SpanTracing]":
    return cast("type[telemetry.spans.SpanTracing]", import_module("telemetry.spans").SpanTracing)
