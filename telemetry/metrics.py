"""Prometheus metrics of one sidecar, in a registry of their own. Everything is counted per turn, nothing per event."""

from collections.abc import Callable, Mapping

from prometheus_client import Counter, Gauge, Histogram

from telemetry.reasons import (
    DIALS,
    GATES,
    LINK_ENDS,
    NO_TRANSPORT,
    REASONS,
    RETRY_CAUSES,
    SIDECAR_ERRORS,
    STATE_OPERATIONS,
    TRANSPORTS,
    bounded,
)
from telemetry.registry import DURATION_BUCKETS, OVERHEAD_BUCKETS, Registry
from telemetry.turn import TurnRecord


class Metrics:
    """All metrics of one sidecar. Label values come from `telemetry.reasons`; anything else becomes `other`."""

    def __init__(self, version: str | None = None) -> None:
        registry = self._registry = Registry("deltawire_build_info", version)
        self._turns = Counter(
            "deltawire_turns",
            "Turns by transport and by the reason not to be a delta",
            ("transport", "reason"),
            registry=registry,
        )
        self._answers = Counter(
            "deltawire_answers", "Turns by class of the HTTP status shown to the client", ("class",), registry=registry
        )
        self._client_bytes = Counter(
            "deltawire_client_bytes", "Bytes of request bodies received from clients", registry=registry
        )
        self._upstream_bytes = Counter(
            "deltawire_upstream_bytes", "Bytes of requests sent to the upstream", registry=registry
        )
        self._tokens = Counter(
            "deltawire_tokens",
            "Tokens as the upstream reported them; cached ones are input too",
            ("kind",),
            registry=registry,
        )
        self._overhead = Histogram(
            "deltawire_overhead_seconds",
            "Time that the sidecar itself adds before the frame is written",
            buckets=OVERHEAD_BUCKETS,
            registry=registry,
        )
        self._first_event = Histogram(
            "deltawire_first_event_seconds",
            "Frame written to first event of the upstream",
            ("transport",),
            buckets=DURATION_BUCKETS,
            registry=registry,
        )
        self._duration = Histogram(
            "deltawire_turn_seconds",
            "Whole turns, first byte in to last byte out",
            ("transport",),
            buckets=DURATION_BUCKETS,
            registry=registry,
        )
        self._retries = Counter("deltawire_retries", "Transparent retries by cause", ("cause",), registry=registry)
        self._link_ends = Counter("deltawire_link_ends", "Ended links by cause", ("cause",), registry=registry)
        self._dials = Counter("deltawire_dials", "Links that were dialled, by outcome", ("outcome",), registry=registry)
        self._errors = Counter(
            "deltawire_errors", "Turns that the sidecar itself answered with an error", ("error",), registry=registry
        )
        self._state_errors = Counter(
            "deltawire_state_errors", "Failed operations on the shared state", ("operation",), registry=registry
        )
        self._clients_gone = Counter(
            "deltawire_clients_gone", "Turns whose client left before the answer was complete", registry=registry
        )
        self._lag = Gauge(
            "deltawire_loop_lag_seconds", "How late the event loop last woke a waiting task", registry=registry
        )
        self._mode = Gauge(
            "deltawire_transport_mode", "1 for the transport mode in effect", ("mode",), registry=registry
        )
        self.observe_gates(dict)
        # A counter that exists from the start shows its first increase as one.
        for counter, known in (
            (self._retries, RETRY_CAUSES),
            (self._link_ends, LINK_ENDS),
            (self._dials, DIALS),
            (self._errors, SIDECAR_ERRORS),
            (self._state_errors, STATE_OPERATIONS),
        ):
            for code in known:
                counter.labels(code)

    def turn(self, record: TurnRecord) -> None:
        """Count one finished turn. Its retries are not counted here, they were when they happened (`retried`)."""
        transport = bounded(record.transport, TRANSPORTS) if record.transport else NO_TRANSPORT
        self._turns.labels(transport, _reason(record)).inc()
        self._answers.labels(_status_class(record.status)).inc()
        self._client_bytes.inc(record.client_bytes)
        self._upstream_bytes.inc(record.upstream_bytes)
        self._duration.labels(transport).observe(record.duration_s)
        if record.overhead_s is not None:
            self._overhead.observe(record.overhead_s)
        if record.first_event_s is not None:
            self._first_event.labels(transport).observe(record.first_event_s)
        for kind, tokens in (
            ("input", record.usage_input),
            ("output", record.usage_output),
            ("cached", record.usage_cached),
        ):
            if tokens:
                self._tokens.labels(kind).inc(tokens)
        if record.error:
            self._errors.labels(bounded(record.error, SIDECAR_ERRORS)).inc()
        if record.client_gone:
            self._clients_gone.inc()

    def retried(self, cause: str) -> None:
        """Count one transparent retry at the moment it is made."""
        self._retries.labels(bounded(cause, RETRY_CAUSES)).inc()

    def link_ended(self, cause: str) -> None:
        """Count one link that ended."""
        self._link_ends.labels(bounded(cause, LINK_ENDS)).inc()

    def dialled(self, outcome: str) -> None:
        """Count one link that was dialled."""
        self._dials.labels(bounded(outcome, DIALS)).inc()

    def state_error(self, operation: str) -> None:
        """Count one failed operation on the shared state."""
        self._state_errors.labels(bounded(operation, STATE_OPERATIONS)).inc()

    def loop_lag(self, seconds: float) -> None:
        """Set the last measured lag of the event loop."""
        self._lag.set(seconds)

    def transport_mode(self, mode: str) -> None:
        """Show the transport mode in effect; the one shown before disappears."""
        self._mode.clear()
        self._mode.labels(mode).set(1)

    def observe_links(self, count: Callable[[], Mapping[str, int]]) -> None:
        """Ask `count` at each scrape for the number of links by state."""
        self._registry.observe("deltawire_links", "Upstream links by state", "state", count)

    def observe_gates(self, count: Callable[[], Mapping[str, int]]) -> None:
        """Ask `count` at each scrape for the number of shut gates by reason."""
        self._registry.observe(
            "deltawire_gates_shut",
            "Gates between turns and links that are shut, by reason",
            "reason",
            lambda: dict.fromkeys(GATES, 0) | dict(count()),
        )

    def observe_heads(self, count: Callable[[], int]) -> None:
        """Ask `count` at each scrape for the number of known heads."""
        self._registry.observe("deltawire_heads", "Known conversation states", "", lambda: {"": count()})

    def observe_tasks(self, count: Callable[[], int]) -> None:
        """Ask `count` at each scrape for the number of tasks of the event loop."""
        self._registry.observe("deltawire_tasks", "Tasks of the event loop", "", lambda: {"": count()})

    def render(self) -> tuple[bytes, str]:
        """The text exposition of all metrics, and its content type."""
        return self._registry.render()


def _reason(record: TurnRecord) -> str:
    if record.transport == "delta" or not (record.transport or record.reason):
        return ""
    return bounded(record.reason, REASONS)


def _status_class(status: int) -> str:
    return f"{status // 100}xx" if 100 <= status < 600 else NO_TRANSPORT  # noqa: PLR2004 (the range of HTTP statuses)
