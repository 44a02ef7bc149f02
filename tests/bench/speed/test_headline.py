import pytest

from bench.speed import headline, tun
from bench.speed.agent import Loop, Turn
from bench.speed.counts import Carried
from bench.speed.headline import WAYS, Figures, Scenario, figures, section
from bench.speed.scenery import Network, Outcome
from bench.speed.ways import HTTP, NONE, SIDECAR, SOCKET

_CLAIMED = Scenario(20, 1000, 40, 20)
_SLOW = Scenario(20, 65, 40, 20)


def _figures(loop: float, first: float = 0.1) -> Figures:
    return Figures(loop, loop + 6, first, 1e6, 2e6, 0.1, 0.2, 0.3, 60_000)


def _medians(*scenarios: Scenario, **loops: float) -> headline.Medians:
    found = {(scenario, way.name): _figures(10.0, 0.2) for scenario in scenarios for way in WAYS}
    for scenario in scenarios:
        found[scenario, SOCKET.name] = _figures(loops.get("socket", 5.5))
        found[scenario, SIDECAR.name] = _figures(loops.get("sidecar", 5.5))
    return found


def test_a_scenario_says_its_network_in_seconds_and_bits() -> None:
    assert _CLAIMED.network == Network(0.04, 20e6)


def test_medians_are_over_loops_and_over_their_turns_but_the_first() -> None:
    def outcome(first: float) -> Outcome:
        turns = (Turn(9.0, 9.0, 9), Turn(first, 1.0, 100), Turn(first, 1.0, 200))
        return Outcome(Loop(turns, 20.0, 0.5), Carried(1000, 2000), 0.3, 0.2)

    found = figures([outcome(0.1), outcome(0.2), outcome(0.2)])
    assert (found.loop, found.wall, found.first, found.up, found.body) == (11.0, 20.0, 0.2, 1000, 150)


@pytest.mark.parametrize(
    ("sidecar", "held"), [(5.5, [True, True, True]), (5.8, [True, False, True]), (6.5, [False, False, True])]
)
def test_claims_are_those_of_a_thousand_tokens_and_forty_milliseconds(sidecar: float, held: list[bool]) -> None:
    made = section(_medians(_CLAIMED, _SLOW, sidecar=sidecar), linked=True)
    assert [finding.held for finding in made.findings if "sidecar, append" not in finding.claim] == held
    assert sum("sidecar, append" in finding.claim for finding in made.findings) == len(held)


def test_where_it_does_not_help_stands_beside_where_it_does() -> None:
    made = section(_medians(_CLAIMED, _SLOW, sidecar=11.0), linked=True)
    gains = made.tables[0]
    assert [row[3] for row in gains.rows] == ["-10%", "-10%"]
    assert len(made.tables) == 3
    assert [row[0] for row in made.tables[1].rows] == [way.name for way in WAYS]


def test_without_a_link_it_is_not_the_headline() -> None:
    assert "Not the headline" in section(_medians(_CLAIMED), linked=False).about[0]
    assert "Not the headline" not in section(_medians(_CLAIMED), linked=True).about[0]


def test_lines_are_drawn_by_calls_and_by_round_trip() -> None:
    scenarios = (_CLAIMED, Scenario(5, 1000, 40, 20), Scenario(20, 1000, 0, 0))
    by_calls, by_trip = section(_medians(*scenarios), linked=True).plots
    assert [x for x, _ in by_calls.lines[NONE.name]] == [5, 20]
    assert [x for x, _ in by_trip.lines[NONE.name]] == [0, 40]


async def test_every_way_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    ways = (NONE, HTTP, SOCKET, SIDECAR)
    monkeypatch.setattr(tun, "available", lambda: False)
    monkeypatch.setattr(headline, "IDLE", 0.0)
    monkeypatch.setattr(headline, "WAYS", ways)
    made = await headline.measured(scenarios=(Scenario(1, 0, 0, 0, rounds=1),))
    assert [row[0] for row in made.tables[1].rows] == [way.name for way in ways]
