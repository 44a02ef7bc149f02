import dataclasses

import orjson
import pytest

from telemetry.turn import MAX_TEXT, TurnRecord, cut


def test_a_record_starts_with_nothing_but_its_id() -> None:
    record = TurnRecord("req_1").as_dict()
    assert record.pop("request_id") == "req_1"
    assert not any(record.values())


def test_unknown_figures_are_null_and_not_zero() -> None:
    record = TurnRecord("req_1").as_dict()
    unknown = {name for name, value in record.items() if value is None}
    assert unknown == {"link", "overhead_s", "first_event_s", "usage_input", "usage_output", "usage_cached"}


def test_a_record_has_no_place_for_anything_that_it_does_not_name() -> None:
    with pytest.raises(AttributeError):
        TurnRecord("req_1").body = b"secret"  # type: ignore[attr-defined]


def test_text_from_outside_is_cut_when_it_leaves() -> None:
    record = TurnRecord("r" * 999, model="m" * 999, upstream_error="e" * 999, retries=("c" * 999,))
    shown = record.as_dict()
    texts = [shown["request_id"], shown["model"], shown["upstream_error"], *record.as_dict()["retries"]]  # type: ignore[misc]
    assert [len(str(text)) for text in texts] == [MAX_TEXT] * 4


def test_cutting_leaves_a_mark_only_where_something_is_missing() -> None:
    assert cut("a" * MAX_TEXT) == "a" * MAX_TEXT
    assert cut("a" * (MAX_TEXT + 1)) == "a" * (MAX_TEXT - 1) + "…"


def test_the_dict_has_all_fields_in_order_and_is_json() -> None:
    record = TurnRecord("req_1", overhead_s=0.000123456789, retries=("not_written",), link=3, client_gone=True)
    shown = record.as_dict()
    assert list(shown) == [field.name for field in dataclasses.fields(record)]
    assert orjson.loads(orjson.dumps(shown)) == shown
    assert shown["overhead_s"] == 0.000123
    assert shown["retries"] == ["not_written"]


@pytest.mark.parametrize(
    ("record", "failed"),
    [
        (TurnRecord("r", status=200), False),
        (TurnRecord("r", status=429, upstream_error="rate_limit_exceeded"), False),
        (TurnRecord("r", status=500), True),
        (TurnRecord("r", status=502, error="link_lost"), True),
        (TurnRecord("r", status=413, error="body_too_large"), True),
        (TurnRecord("r", client_gone=True), False),
    ],
)
def test_a_turn_failed_when_the_sidecar_or_the_upstream_could_not_serve_it(record: TurnRecord, *, failed: bool) -> None:
    assert record.failed is failed
