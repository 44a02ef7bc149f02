import pytest

from bench.speed import relay
from bench.speed.hops import DIRECT, NAIVE, SIDECAR
from bench.speed.relay import BURST, Figures, Pressure, section

_LIGHT = Pressure(4, 1000)
_HEAVY = Pressure(64, 1000)


def _medians(**late: float) -> relay.Medians:
    return {
        (pressure, name): Figures(pressure.streams * pressure.pace, per_cpu, seconds)
        for pressure in (_LIGHT, _HEAVY)
        for name, per_cpu, seconds in (
            (DIRECT, 0.0, 0.001),
            (NAIVE, 60_000.0, 0.002),
            (SIDECAR, 50_000.0, late.get("late", 0.003)),
        )
    }


def test_events_per_processor_second_are_compared_with_the_naive_hop() -> None:
    ratios = [finding for finding in section(_medians()).findings if "CPU second" in finding.claim]
    assert [(round(finding.found, 3), finding.held) for finding in ratios] == [(0.833, True), (0.833, True)]


@pytest.mark.parametrize(("late", "held"), [(0.005, True), (0.007, False)])
def test_the_delay_is_judged_where_the_pressure_is_below_the_ceiling(late: float, *, held: bool) -> None:
    (finding,) = [one for one in section(_medians(late=late)).findings if "delay" in one.claim]
    assert "4 streams" in finding.claim
    assert finding.found == pytest.approx(late * 1e3 - 1)
    assert finding.held is held


@pytest.mark.parametrize(("rate", "held"), [(31_000.0, True), (20_000.0, False)])
def test_a_burst_is_carried_when_its_events_come_at_their_pace(rate: float, *, held: bool) -> None:
    medians = _medians() | {(BURST, name): Figures(rate, 50_000.0, 0.001) for name in (DIRECT, NAIVE, SIDECAR)}
    last = section(medians).findings[-1]
    assert (last.found, last.held) == (rate / 8, held)


async def test_every_event_is_counted_and_some_are_timed() -> None:
    made = await relay.measured(pressures=(Pressure(2, 100),), seconds=0.1, rounds=1)
    rows = {row[2]: row for row in made.tables[0].rows}
    assert {DIRECT, NAIVE, SIDECAR} <= rows.keys()
    assert all(isinstance(row[5], float) and row[5] > 0 for row in rows.values())
