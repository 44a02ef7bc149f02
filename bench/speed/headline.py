"""Loops of tool calls over a network, by every way that there is: how long they take, and where it does not help."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.speed import scenery, tun
from bench.speed.figures import interleaved, less, median, times
from bench.speed.results import Cell, Finding, Plot, Section, Table
from bench.speed.scenery import Network
from bench.speed.ways import APPEND, CHAINED, HTTP, NONE, SIDECAR, SOCKET

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from bench.speed.scenery import Outcome

WAYS = (NONE, HTTP, CHAINED, SOCKET, SIDECAR, APPEND)
IDLE = 0.3
"""Seconds that a tool takes: real ones take 1.2 at the median. Longer than TCP's retransmission timeout, after which a
connection starts slowly again."""
MEGABIT = 1e6
_WARM = 1000
_FASTER = 0.4
_SOONER = 0.45
_NEAR = 1.03


@dataclass(frozen=True, slots=True)
class Scenario:
    """A loop of `calls`, an engine of `pace` tokens a second, and a network.

    `round_trip` is in ms, `rate` in Mbit/s; 0 is without limit.
    """

    calls: int
    pace: int
    round_trip: int
    rate: int
    rounds: int = 2

    @property
    def network(self) -> Network:
        """The network of it."""
        return Network(self.round_trip / 1e3, self.rate * MEGABIT)


SCENARIOS = (
    Scenario(20, 1000, 40, 20, rounds=3),
    Scenario(5, 1000, 40, 20),
    Scenario(20, 1000, 10, 20),
    Scenario(20, 1000, 0, 0),
    Scenario(20, 4000, 40, 20),
    Scenario(20, 4000, 0, 0),
    Scenario(5, 65, 40, 20, rounds=1),
    Scenario(100, 1000, 40, 20, rounds=1),
)
QUICK = (Scenario(3, 1000, 40, 20, rounds=1),)


@dataclass(frozen=True, slots=True)
class Figures:
    """Medians over the loops of a way. Seconds and bytes; `first` is over all turns but the first of a loop."""

    loop: float
    """All turns, without the time of tools."""
    wall: float
    first: float
    up: float
    down: float
    client: float
    sidecar: float
    server: float
    body: float
    """Bytes of a request at the client."""


Medians = dict[tuple[Scenario, str], Figures]


async def measured(*, scenarios: Sequence[Scenario] = SCENARIOS) -> Section:
    """The whole measurement."""
    found: dict[tuple[Scenario, str], list[Outcome]] = defaultdict(list)
    for scenario in scenarios:
        async with scenery.opened(WAYS, scenario.network, scenario.pace) as places:
            for place in places:
                await place.loop(1, 0.0, seed=_WARM)  # a server reads its vocabulary with its first turn
            for number, place in enumerate(interleaved(places, scenario.rounds)):
                outcome = await place.loop(scenario.calls, IDLE, seed=number // len(places))
                found[scenario, place.way.name].append(outcome)
    return section({key: figures(outcomes) for key, outcomes in found.items()}, linked=tun.available())


def figures(outcomes: Sequence[Outcome]) -> Figures:
    """Medians of these loops."""
    turns = [turn for outcome in outcomes for turn in outcome.loop.turns[1:]]
    return Figures(
        loop=median(sum(turn.whole for turn in outcome.loop.turns) for outcome in outcomes),
        wall=median(outcome.loop.wall for outcome in outcomes),
        first=median(turn.first for turn in turns),
        up=median(outcome.carried.up for outcome in outcomes),
        down=median(outcome.carried.down for outcome in outcomes),
        client=median(outcome.loop.cpu for outcome in outcomes),
        sidecar=median(outcome.sidecar for outcome in outcomes),
        server=median(outcome.server for outcome in outcomes),
        body=median(turn.sent for turn in turns),
    )


def section(medians: Mapping[tuple[Scenario, str], Figures], *, linked: bool) -> Section:
    """The report. Without `linked` the network was only a delay."""
    network = (
        f"TLS over a link in user space between two network namespaces, congestion control {scenery.CONGESTION}."
        if linked
        else "**Not the headline**: TLS over a proxy that only delays, without slow start; a link needs root on Linux."
    )
    scenarios = list(dict.fromkeys(scenario for scenario, _ in medians))
    return Section(
        "Loops of tool calls over a network",
        (
            network,
            "Each answer is a call of about 120 tokens. *Loop* leaves the time of tools out, *with tools* does not.",
            f"A tool takes {IDLE} s: scaled down from 1.2 s, yet longer than TCP's retransmission timeout.",
            *(f"*{way.name}*: {way.about} (`--caching {way.caching}`)." for way in WAYS),
        ),
        (
            Table(
                "Where the sidecar helps, and where not",
                _GAIN_COLUMNS,
                tuple(_gain(scenario, medians) for scenario in scenarios),
            ),
            *(_table(scenario, medians) for scenario in scenarios),
        ),
        tuple(_plots(medians)),
        tuple(finding for scenario in scenarios for finding in _findings(scenario, medians)),
    )


_GAIN_COLUMNS = (
    "loop",
    "plain HTTP, s",
    "sidecar, s",
    "faster by",
    "with tools",
    "first token",
    "against HTTP, cached",
    "against WebSocket",
    "bytes up",
    "over append, faster by",
)


def _gain(scenario: Scenario, medians: Mapping[tuple[Scenario, str], Figures]) -> tuple[Cell, ...]:
    plain, cached, socket, sidecar = (medians[scenario, way.name] for way in (NONE, HTTP, SOCKET, SIDECAR))
    append = medians.get((scenario, APPEND.name))
    return (
        _name(scenario),
        plain.loop,
        sidecar.loop,
        f"{less(sidecar.loop, plain.loop):.0%}",
        f"{less(sidecar.wall, plain.wall):.0%}",
        f"{less(sidecar.first, plain.first):.0%}",
        f"{less(sidecar.loop, cached.loop):.0%}",
        f"{less(sidecar.loop, socket.loop):.0%}",
        f"{less(sidecar.up, plain.up):.0%}",
        f"{less(append.loop, plain.loop):.0%}" if append is not None else "",
    )


def _table(scenario: Scenario, medians: Mapping[tuple[Scenario, str], Figures]) -> Table:
    rows = [
        (
            way.name,
            found.loop,
            found.wall,
            found.first * 1e3,
            round(found.body / 1e3, 1),
            round(found.up / 1e3),
            round(found.down / 1e3),
            round(found.client * 1e3),
            round(found.sidecar * 1e3) if way.sidecar is not None else "",
            round(found.server * 1e3),
        )
        for way in WAYS
        if (found := medians.get((scenario, way.name))) is not None
    ]
    columns = (
        *("way", "loop, s", "with tools, s", "first token, ms", "request, kB", "up, kB", "down, kB"),
        *("CPU client, ms", "sidecar, ms", "server, ms"),
    )
    return Table(_name(scenario), columns, tuple(rows))


def _name(scenario: Scenario) -> str:
    rate = f", {scenario.rate} Mbit/s" if scenario.rate else ", no limit of bandwidth"
    return f"{scenario.calls} calls, {scenario.pace:,} tokens/s, {scenario.round_trip} ms{rate}"


def _findings(scenario: Scenario, medians: Mapping[tuple[Scenario, str], Figures]) -> Iterable[Finding]:
    if scenario.pace != 1000 or scenario.round_trip != 40 or scenario.calls < 20:  # noqa: PLR2004 - what is claimed
        return
    plain, socket = medians[scenario, NONE.name], medians[scenario, SOCKET.name]
    name = _name(scenario)
    for way in (SIDECAR, APPEND):
        found = medians.get((scenario, way.name))
        if found is not None:
            yield Finding(f"loop, {way.name}, less than {NONE.name}: {name}", _FASTER, less(found.loop, plain.loop))
            near = times(found.loop, socket.loop)
            yield Finding(f"loop, {way.name} : {SOCKET.name}: {name}", _NEAR, near, at_least=False)
            sooner = less(found.first, plain.first)
            yield Finding(f"first token, {way.name}, less than {NONE.name}: {name}", _SOONER, sooner)


def _plots(medians: Mapping[tuple[Scenario, str], Figures]) -> Iterable[Plot]:
    by_calls: dict[str, list[tuple[float, float]]] = defaultdict(list)
    by_trip: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for (scenario, name), found in sorted(medians.items(), key=lambda one: (one[0][0].calls, one[0][0].round_trip)):
        if (scenario.pace, scenario.round_trip) == (1000, 40):
            by_calls[name].append((scenario.calls, found.loop))
        if (scenario.pace, scenario.calls) == (1000, 20):
            by_trip[name].append((scenario.round_trip, found.first * 1e3))
    if by_calls:
        yield Plot("loops", "Loop without tools, 1,000 tokens/s, 40 ms", "tool calls", "s", dict(by_calls))
    if by_trip:
        yield Plot(
            "round-trips", "Time to first token, 1,000 tokens/s, 20 calls", "round trip, ms", "ms", dict(by_trip)
        )
