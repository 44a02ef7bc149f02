import pytest

from bench.speed import start
from bench.speed.start import Sample, section
from bench.speed.ways import APPEND, HTTP, NONE, SOCKET


def _samples(socket_growth: float = 1.0) -> start.Samples:
    found = {}
    for size, grown in ((10_000, 1.0), (1_000_000, 1.0), (4_000_000, socket_growth)):
        found[size, NONE.name] = [Sample(0.03, 0.05, 0.04, 1_000_000)] * 3
        found[size, HTTP.name] = [Sample(0.005, 0.02, 0.01, 1_000_000)] * 3
        socket = 0.001 * grown
        found[size, SOCKET.name] = [Sample(socket * many, 0.004, 0.002, 40_000) for many in (0.5, 1, 9)]
        found[size, APPEND.name] = [Sample(socket, 0.004, 0.002, 1_000_000)] * 3
    return found


def test_the_report_has_medians_in_milliseconds() -> None:
    made = section(_samples())
    row = next(row for row in made.tables[0].rows if row[:2] == ("1,000", SOCKET.name))
    assert row[2:] == pytest.approx((1.0, 4.0, 2.0, 40_000))
    assert made.plots[0].lines[NONE.name] == [(10, 30.0), (1000, 30.0), (4000, 30.0)]


def test_claims_are_judged_at_a_megabyte() -> None:
    findings = section(_samples()).findings
    assert [round(finding.found, 6) for finding in findings] == [30, 1, 0.6, 1]
    assert all(finding.held for finding in findings)


def test_growth_with_history_is_no_success() -> None:
    assert not section(_samples(socket_growth=2.0)).findings[1].held


async def test_every_generation_is_measured_in_its_own_conversation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start, "_SETTLED", 0.0)
    made = await start.measured(sizes=(5000,), rounds=2)
    rows = made.tables[0].rows
    assert [row[1] for row in rows] == [way.name for way in (NONE, HTTP, SOCKET, APPEND)]
    assert all(isinstance(cell, float) and cell > 0 for row in rows for cell in row[2:4])
