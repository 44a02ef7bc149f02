import re
from pathlib import Path

import pytest
from prometheus_client import REGISTRY, Metric
from prometheus_client.parser import text_string_to_metric_families

from telemetry.metrics import Metrics
from telemetry.reasons import DIALS, GATES, LINK_ENDS, REASONS, RETRY_CAUSES, SIDECAR_ERRORS, STATE_OPERATIONS
from telemetry.turn import TurnRecord

PUBLISHED = {
    "deltawire_turns_total": ("counter", {"transport", "reason"}),
    "deltawire_client_bytes_total": ("counter", set()),
    "deltawire_upstream_bytes_total": ("counter", set()),
    "deltawire_overhead_seconds_count": ("histogram", set()),
    "deltawire_first_event_seconds_count": ("histogram", {"transport"}),
    "deltawire_links": ("gauge", {"state"}),
    "deltawire_heads": ("gauge", set()),
    "deltawire_tasks": ("gauge", set()),
    "deltawire_retries_total": ("counter", {"cause"}),
    "deltawire_link_ends_total": ("counter", {"cause"}),
    "deltawire_dials_total": ("counter", {"outcome"}),
    "deltawire_gates_shut": ("gauge", {"reason"}),
    "deltawire_loop_lag_seconds": ("gauge", set()),
    "deltawire_errors_total": ("counter", {"error"}),
    "deltawire_state_errors_total": ("counter", {"operation"}),
    "deltawire_answers_total": ("counter", {"class"}),
    "deltawire_tokens_total": ("counter", {"kind"}),
    "deltawire_turn_seconds_count": ("histogram", {"transport"}),
    "deltawire_clients_gone_total": ("counter", set()),
    "deltawire_transport_mode": ("gauge", {"mode"}),
    "deltawire_build_info": ("gauge", {"version", "python"}),
}


def families(metrics: Metrics) -> list[Metric]:
    return list(text_string_to_metric_families(metrics.render()[0].decode()))


def samples(metrics: Metrics, name: str) -> dict[tuple[str, ...], float]:
    found = (sample for family in families(metrics) for sample in family.samples if sample.name == name)
    return {tuple(sample.labels.values()): sample.value for sample in found}


def turn(**given: object) -> TurnRecord:
    record = TurnRecord("req_1", transport="full", reason="first_turn", status=200)
    for name, value in given.items():
        setattr(record, name, value)
    return record


def test_the_page_has_exactly_the_published_names_types_and_labels() -> None:
    metrics = Metrics()
    metrics.turn(turn(overhead_s=0.001, first_event_s=0.2, usage_input=3))
    metrics.observe_links(lambda: {"idle": 1})
    metrics.observe_heads(lambda: 1)
    metrics.observe_tasks(lambda: 1)
    metrics.transport_mode("auto")
    shown = {
        sample.name: (family.type, set(sample.labels))
        for family in families(metrics)
        for sample in family.samples
        if not sample.name.endswith(("_bucket", "_sum"))
    }
    assert shown == PUBLISHED


def test_the_page_of_the_documentation_has_the_same_names_and_labels() -> None:
    page = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text()
    rows = re.findall(r"^\| `(deltawire_[a-z_]+)` \| ([^|]*)\|", page, re.MULTILINE)
    told = {name: set(re.findall(r"`(\w+)`", labels)) for name, labels in rows}
    assert told == {name.removesuffix("_count"): labels for name, (_, labels) in PUBLISHED.items()}


def test_the_content_type_is_that_of_the_text_format() -> None:
    assert Metrics().render()[1] == "text/plain; version=0.0.4; charset=utf-8"


def test_two_sidecars_in_one_process_count_apart_and_touch_no_global_registry() -> None:
    before = {family.name for family in REGISTRY.collect()}
    one, other = Metrics(), Metrics()
    one.turn(turn())
    assert samples(one, "deltawire_turns_total") == {("first_turn", "full"): 1.0}
    assert samples(other, "deltawire_turns_total") == {}
    assert {family.name for family in REGISTRY.collect()} == before


@pytest.mark.parametrize(
    ("given", "labels"),
    [
        ({"transport": "delta", "reason": ""}, ("", "delta")),
        ({"transport": "delta", "reason": "first_turn"}, ("", "delta")),
        ({"transport": "http", "reason": "no_websocket"}, ("no_websocket", "http")),
        ({"transport": "full", "reason": ""}, ("other", "full")),
        ({"transport": "full", "reason": "user text"}, ("other", "full")),
        ({"transport": "pigeon", "reason": "first_turn"}, ("first_turn", "other")),
        ({"transport": "", "reason": ""}, ("", "none")),
        ({"transport": "", "reason": "unreadable"}, ("unreadable", "none")),
    ],
)
def test_transport_and_reason_come_from_fixed_lists(given: dict[str, object], labels: tuple[str, ...]) -> None:
    metrics = Metrics()
    metrics.turn(turn(**given))
    assert samples(metrics, "deltawire_turns_total") == {labels: 1.0}


def test_bytes_tokens_and_durations_add_up_over_turns() -> None:
    metrics = Metrics()
    for _ in range(2):
        metrics.turn(
            turn(
                client_bytes=1000, upstream_bytes=10, usage_input=90, usage_output=5, usage_cached=80, overhead_s=0.002,
                first_event_s=0.3, duration_s=1.5,
            )
        )  # fmt: skip
    assert samples(metrics, "deltawire_client_bytes_total") == {(): 2000.0}
    assert samples(metrics, "deltawire_upstream_bytes_total") == {(): 20.0}
    assert samples(metrics, "deltawire_tokens_total") == {("input",): 180.0, ("output",): 10.0, ("cached",): 160.0}
    assert samples(metrics, "deltawire_overhead_seconds_sum") == {(): 0.004}
    assert samples(metrics, "deltawire_first_event_seconds_sum") == {("full",): 0.6}
    assert samples(metrics, "deltawire_turn_seconds_sum") == {("full",): 3.0}


def test_what_did_not_happen_is_not_observed_as_zero() -> None:
    metrics = Metrics()
    metrics.turn(turn())
    assert samples(metrics, "deltawire_overhead_seconds_count") == {(): 0.0}
    assert samples(metrics, "deltawire_first_event_seconds_count") == {}
    assert samples(metrics, "deltawire_tokens_total") == {}


def test_the_overhead_histogram_tells_a_tenth_of_a_millisecond_from_a_whole_one() -> None:
    metrics = Metrics()
    metrics.turn(turn(overhead_s=0.0002))
    buckets = [
        (sample.labels["le"], sample.value)
        for family in families(metrics)
        for sample in family.samples
        if sample.name == "deltawire_overhead_seconds_bucket"
    ]
    assert buckets[:3] == [("0.0001", 0.0), ("0.00025", 1.0), ("0.0005", 1.0)]


@pytest.mark.parametrize(
    ("status", "shown"), [(200, "2xx"), (429, "4xx"), (502, "5xx"), (0, "none"), (99, "none"), (600, "none")]
)
def test_answers_are_counted_by_class_of_status(status: int, shown: str) -> None:
    metrics = Metrics()
    metrics.turn(turn(status=status))
    assert samples(metrics, "deltawire_answers_total") == {(shown,): 1.0}


def test_a_retry_is_counted_when_it_is_made_and_not_again_with_its_turn() -> None:
    metrics = Metrics()
    metrics.retried("not_written")
    metrics.turn(turn(retries=("not_written",)))
    assert samples(metrics, "deltawire_retries_total")["not_written",] == 1.0


def test_causes_and_errors_outside_the_lists_become_other() -> None:
    metrics = Metrics()
    metrics.retried("sk-secret")
    metrics.link_ended("sk-secret")
    metrics.dialled("sk-secret")
    metrics.state_error("sk-secret")
    metrics.turn(turn(error="sk-secret", status=502))
    for name in ("retries", "link_ends", "dials", "state_errors", "errors"):
        assert samples(metrics, f"deltawire_{name}_total")["other",] == 1.0
    assert b"sk-secret" not in metrics.render()[0]


def test_every_known_cause_is_on_the_page_before_it_first_happens() -> None:
    metrics = Metrics()
    for name, known in (
        ("retries", RETRY_CAUSES),
        ("link_ends", LINK_ENDS),
        ("dials", DIALS),
        ("errors", SIDECAR_ERRORS),
        ("state_errors", STATE_OPERATIONS),
    ):
        assert samples(metrics, f"deltawire_{name}_total") == {(code,): 0.0 for code in known}


def test_known_causes_and_errors_are_counted_under_their_names() -> None:
    metrics = Metrics()
    metrics.link_ended("idle")
    metrics.dialled("opened")
    metrics.state_error("read")
    metrics.turn(turn(error="link_lost", status=502, client_gone=True))
    assert samples(metrics, "deltawire_link_ends_total")["idle",] == 1.0
    assert samples(metrics, "deltawire_dials_total")["opened",] == 1.0
    assert samples(metrics, "deltawire_state_errors_total")["read",] == 1.0
    assert samples(metrics, "deltawire_errors_total")["link_lost",] == 1.0
    assert samples(metrics, "deltawire_clients_gone_total") == {(): 1.0}


def test_links_heads_and_tasks_are_asked_for_at_each_scrape() -> None:
    metrics, links, heads = Metrics(), {"idle": 1, "busy": 2}, [7]
    assert samples(metrics, "deltawire_links") == {}
    assert samples(metrics, "deltawire_heads") == {}
    metrics.observe_links(lambda: links)
    metrics.observe_heads(lambda: heads[0])
    assert samples(metrics, "deltawire_links") == {("idle",): 1.0, ("busy",): 2.0}
    links["busy"] = 3
    heads[0] = 8
    assert samples(metrics, "deltawire_links")["busy",] == 3.0
    assert samples(metrics, "deltawire_heads") == {(): 8.0}
    assert samples(metrics, "deltawire_tasks") == {}
    metrics.observe_tasks(lambda: 5)
    assert samples(metrics, "deltawire_tasks") == {(): 5.0}


def test_every_kind_of_gate_is_on_the_page_and_asked_for_at_each_scrape() -> None:
    metrics, shut = Metrics(), {"breaker_open": 1}
    assert samples(metrics, "deltawire_gates_shut") == {(code,): 0.0 for code in GATES}
    metrics.observe_gates(lambda: shut)
    for number in (1, 2):
        shut["breaker_open"] = number
        assert samples(metrics, "deltawire_gates_shut") == {(code,): 0.0 for code in GATES} | {
            ("breaker_open",): number
        }


def test_lag_and_mode_show_their_last_value_alone() -> None:
    metrics = Metrics()
    for lag, mode in ((0.5, "auto"), (0.25, "http")):
        metrics.loop_lag(lag)
        metrics.transport_mode(mode)
    assert samples(metrics, "deltawire_loop_lag_seconds") == {(): 0.25}
    assert samples(metrics, "deltawire_transport_mode") == {("http",): 1.0}


def test_the_page_stays_bounded_whatever_the_labels_are_fed() -> None:
    metrics = Metrics()
    for number in range(500):
        metrics.turn(turn(transport=f"t{number}", reason=f"r{number}", error=f"e{number}", model=f"m{number}"))
    assert len(samples(metrics, "deltawire_turns_total")) == 1
    for reason in REASONS:
        metrics.turn(turn(reason=reason))
    assert len(samples(metrics, "deltawire_turns_total")) == 1 + len(REASONS)
