"""Prometheus metrics of one shipped server, in a registry of their own. Counted per turn, nothing per event."""

from collections.abc import Callable, Mapping
from typing import Final

from prometheus_client import Counter, Gauge, Histogram

from telemetry.reasons import bounded
from telemetry.registry import DURATION_BUCKETS, OVERHEAD_BUCKETS, Registry

TRANSPORTS: Final = {
    "http": "a `POST`, answered as JSON or as a stream",
    "websocket": "a frame",
    "background": "a `POST` with `background`",
}
STATUSES: Final = {
    "completed": "answered to the end",
    "incomplete": "cut by a limit of tokens or by a filter",
    "failed": "the engine broke off",
    "refused": "the engine took nothing; its tokens are told as 0",
    "cancelled": "ended by a request to cancel",
    "abandoned": "the client left before the end",
}
TOKENS: Final = {
    "input": "the whole context, whatever was kept of it",
    "cached": "of these, what was kept",
    "output": "written",
    "reasoning": "of these, hidden",
}
ENGINE_FAILURES: Final = {
    "refused": "an error before it took the turn",
    "rate_limited": "429 after that",
    "error": "another error that it told after that",
    "crashed": "anything else that went wrong while it wrote",
    "ended_early": "its answer ended before it was whole",
    "out_of_order": "parts of an answer that do not follow each other",
    "warming": "a warm-up that came to nothing",
}
SCOPES: Final = {
    "process": "`--max-cache`",
    "key": "`--max-key-cache`",
    "connection": "`--max-connection-cache`",
    "lane": "`--max-lane-cache`",
}
LIMITS: Final = {"requests": "`requests_per_minute`", "tokens": "`tokens_per_minute`"}
SINKS: Final = {"ledger": "lines of `--ledger`", "store": "responses on their way to `--store`"}
READS: Final = {"found": "it was there", "absent": "it was not", "failed": "the store did not answer"}


class ServerMetrics:
    """All metrics of one server. Label values come from the tables above; anything else becomes `other`."""

    def __init__(self, version: str | None = None) -> None:
        registry = self._registry = Registry("deltawire_upstream_build_info", version)
        self._turns = Counter(
            "deltawire_upstream_turns",
            "Turns by transport and by how they ended",
            ("transport", "status"),
            registry=registry,
        )
        self._tokens = Counter("deltawire_upstream_tokens", "Tokens of turns by kind", ("kind",), registry=registry)
        self._start = Histogram(
            "deltawire_upstream_engine_start_seconds",
            "Request or frame received to engine asked, waiting included",
            ("transport",),
            buckets=OVERHEAD_BUCKETS,
            registry=registry,
        )
        self._first_token = Histogram(
            "deltawire_upstream_first_token_seconds",
            "Engine asked to its first token",
            ("transport",),
            buckets=DURATION_BUCKETS,
            registry=registry,
        )
        self._duration = Histogram(
            "deltawire_upstream_turn_seconds",
            "Request or frame received to the end of the answer",
            ("transport",),
            buckets=DURATION_BUCKETS,
            registry=registry,
        )
        self._engine_failures = Counter(
            "deltawire_upstream_engine_failures", "Failures of the engine by kind", ("kind",), registry=registry
        )
        self._write_failures = Counter(
            "deltawire_upstream_settling_failures",
            "Failed attempts to write, which are repeated",
            ("sink",),
            registry=registry,
        )
        self._given_up = Counter(
            "deltawire_upstream_settling_given_up", "What was never written", ("sink",), registry=registry
        )
        self._evictions = Counter(
            "deltawire_upstream_evictions",
            "Conversations that left because a budget was exceeded, by budget",
            ("scope",),
            registry=registry,
        )
        self._rate_limited = Counter(
            "deltawire_upstream_rate_limited", "Requests refused by a limit of their key", ("limit",), registry=registry
        )
        self._reads = Counter(
            "deltawire_upstream_store_reads",
            "Lookups of responses and items that memory had not",
            ("result",),
            registry=registry,
        )
        self._lag = Gauge(
            "deltawire_upstream_loop_lag_seconds", "How late the event loop last woke a waiting task", registry=registry
        )
        # A counter that exists from the start shows its first increase as one.
        for counter, known in (
            (self._tokens, TOKENS),
            (self._engine_failures, ENGINE_FAILURES),
            (self._evictions, SCOPES),
            (self._rate_limited, LIMITS),
            (self._write_failures, SINKS),
            (self._reads, READS),
            (self._given_up, SINKS),
        ):
            for code in known:
                counter.labels(code)

    def turn(
        self,
        *,
        transport: str,
        status: str,
        tokens: Mapping[str, int],
        seconds: float,
        start_s: float | None,
        first_token_s: float | None,
    ) -> None:
        """Count one turn that has ended. Times are in seconds; None for what did not come to pass."""
        known = bounded(transport, TRANSPORTS)
        self._turns.labels(known, bounded(status, STATUSES)).inc()
        for kind, number in tokens.items():
            self._tokens.labels(bounded(kind, TOKENS)).inc(number)
        self._duration.labels(known).observe(seconds)
        if start_s is not None:
            self._start.labels(known).observe(start_s)
        if first_token_s is not None:
            self._first_token.labels(known).observe(first_token_s)

    def engine_failed(self, kind: str) -> None:
        """Count one failure of the engine."""
        self._engine_failures.labels(bounded(kind, ENGINE_FAILURES)).inc()

    def write_failed(self, sink: str) -> None:
        """Count one attempt to write that failed."""
        self._write_failures.labels(bounded(sink, SINKS)).inc()

    def given_up(self, sink: str, number: int) -> None:
        """Count what will never be written."""
        self._given_up.labels(bounded(sink, SINKS)).inc(number)

    def evicted(self, scope: str) -> None:
        """Count one conversation that had to leave."""
        self._evictions.labels(bounded(scope, SCOPES)).inc()

    def rate_limited(self, limit: str) -> None:
        """Count one refusal by a key's limit."""
        self._rate_limited.labels(bounded(limit, LIMITS)).inc()

    def store_read(self, result: str) -> None:
        """Count one lookup in the shared store, or one exchange with it that failed."""
        self._reads.labels(bounded(result, READS)).inc()

    def loop_lag(self, seconds: float) -> None:
        """Set the last measured lag of the event loop."""
        self._lag.set(seconds)

    def observe(self, name: str, about: str, label: str, values: Callable[[], Mapping[str, float]]) -> None:
        """See `telemetry.registry.Registry`."""
        self._registry.observe(name, about, label, values)

    def render(self) -> tuple[bytes, str]:
        """The text exposition of all metrics, and its content type."""
        return self._registry.render()
