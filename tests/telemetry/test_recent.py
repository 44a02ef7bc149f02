from datetime import UTC, datetime

from telemetry.recent import Recent
from telemetry.turn import TurnRecord


def at_noon() -> datetime:
    return datetime(2026, 11, 30, 12, tzinfo=UTC)


def test_the_newest_turn_stands_first() -> None:
    recent = Recent(now=at_noon)
    for name in "abc":
        recent.add(TurnRecord(name))
    assert [turn["request_id"] for turn in recent.newest()] == ["c", "b", "a"]
    assert [turn["request_id"] for turn in recent.newest(2)] == ["c", "b"]


def test_the_oldest_turn_gives_way_when_the_ring_is_full() -> None:
    recent = Recent(capacity=2, now=at_noon)
    for name in "abc":
        recent.add(TurnRecord(name))
    assert [(turn["number"], turn["request_id"]) for turn in recent.newest()] == [(3, "c"), (2, "b")]


def test_a_kept_turn_does_not_change_with_its_record() -> None:
    recent = Recent(now=at_noon)
    record = TurnRecord("a", status=200)
    recent.add(record)
    record.status = 500
    assert recent.newest()[0]["status"] == 200


def test_a_kept_turn_says_when_it_ended() -> None:
    recent = Recent(now=at_noon)
    recent.add(TurnRecord("a"))
    assert recent.newest()[0]["at"] == "2026-11-30T12:00:00.000+00:00"


def test_the_default_clock_knows_its_time_zone() -> None:
    recent = Recent()
    recent.add(TurnRecord("a"))
    assert datetime.fromisoformat(str(recent.newest()[0]["at"])).tzinfo is not None


def test_an_empty_ring_shows_nothing() -> None:
    assert Recent().newest() == []
