from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from telemetry.server_metrics import ENGINE_FAILURES, SINKS, TOKENS, ServerMetrics

PREFIX = "deltawire_upstream_"


def samples(metrics: ServerMetrics, name: str) -> dict[tuple[str, ...], float]:
    families = text_string_to_metric_families(metrics.render()[0].decode())
    found = (sample for family in families for sample in family.samples if sample.name == PREFIX + name)
    return {tuple(sample.labels.values()): sample.value for sample in found}


def _turn(metrics: ServerMetrics, *, transport: str = "http", status: str = "completed") -> None:
    tokens = {"input": 10, "cached": 4, "output": 3, "reasoning": 1}
    metrics.turn(transport=transport, status=status, tokens=tokens, seconds=2.0, start_s=0.001, first_token_s=0.5)


def test_a_turn_is_counted_with_its_tokens_and_times() -> None:
    metrics = ServerMetrics("1")
    _turn(metrics)
    _turn(metrics, transport="websocket", status="failed")

    assert samples(metrics, "turns_total") == {("completed", "http"): 1, ("failed", "websocket"): 1}
    assert samples(metrics, "tokens_total") == {("input",): 20, ("cached",): 8, ("output",): 6, ("reasoning",): 2}
    assert samples(metrics, "engine_start_seconds_sum")["http",] == 0.001
    assert samples(metrics, "first_token_seconds_sum")["http",] == 0.5
    assert samples(metrics, "turn_seconds_sum")["websocket",] == 2.0


def test_what_did_not_come_to_pass_is_not_timed() -> None:
    metrics = ServerMetrics("1")
    metrics.turn(transport="http", status="abandoned", tokens={}, seconds=1.0, start_s=None, first_token_s=None)

    assert samples(metrics, "engine_start_seconds_count") == {}
    assert samples(metrics, "first_token_seconds_count") == {}
    assert samples(metrics, "turn_seconds_count") == {("http",): 1}


def test_label_values_that_are_not_known_are_told_as_other() -> None:
    metrics = ServerMetrics("1")
    _turn(metrics, transport="x" * 100, status="sk-secret")
    metrics.engine_failed("sk-secret")

    assert samples(metrics, "turns_total") == {("other", "other"): 1}
    assert b"secret" not in metrics.render()[0]


def test_counters_with_known_labels_are_there_from_the_start() -> None:
    metrics = ServerMetrics("1")

    assert samples(metrics, "engine_failures_total") == {(kind,): 0 for kind in ENGINE_FAILURES}
    assert samples(metrics, "tokens_total") == {(kind,): 0 for kind in TOKENS}
    for name in ("settling_failures_total", "settling_given_up_total"):
        assert samples(metrics, name) == {(sink,): 0 for sink in SINKS}


def test_failures_to_write_and_what_is_given_up_are_counted_by_sink() -> None:
    metrics = ServerMetrics("1")
    metrics.write_failed("ledger")
    metrics.given_up("ledger", 3)

    assert samples(metrics, "settling_failures_total")["ledger",] == 1
    assert samples(metrics, "settling_given_up_total")["ledger",] == 3


def test_what_is_observed_is_asked_for_at_each_scrape() -> None:
    metrics = ServerMetrics("1")
    values = {"ledger": 1.0}
    metrics.observe("deltawire_upstream_waiting", "Waiting", "sink", lambda: values)
    metrics.observe("deltawire_upstream_plain", "Plain", "", lambda: {"": 7.0})
    values["ledger"] = 5.0

    assert samples(metrics, "waiting") == {("ledger",): 5.0}
    assert samples(metrics, "plain") == {(): 7.0}
