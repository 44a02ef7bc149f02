"""What a hop costs per event, and how much later events come through it, by the number of streams at once.

The stub writes each event by itself at a steady pace, and stamps it. Every stream has a connection of its own; delays
are read from a few of them only, or the reader itself would be what is measured.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import aiohttp

from bench.speed import hops
from bench.speed.figures import interleaved, median, quantile, times
from bench.speed.hops import DIRECT, NAIVE, SIDECAR
from bench.speed.results import Cell, Finding, Plot, Section, Table
from bench.speed.stub import STAMP
from bench.speed.turns import TurnFailed
from bench.speed.workload import Load, request

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from bench.speed.hops import Hop

SECONDS = 2.0
ROUNDS = 3
_PROBES = 4
"""Streams of which delays are read."""
_LIMIT = 60.0
_END = b"\n\n"
_STAMPS = re.compile(re.escape(STAMP) + rb"(\d+)")
_LATE = 0.005
_PART = 0.7
_CARRIED = 0.95


class Pressure(NamedTuple):
    """How much is relayed at once: streams, and events a second on each."""

    streams: int
    pace: int


STEADY = tuple(Pressure(streams, 1000) for streams in (1, 16, 64, 256))
BURST = Pressure(8, 4000)


@dataclass(frozen=True, slots=True)
class Sample:
    """One run of a pressure through a hop. Times are seconds."""

    events: int
    seconds: float
    cpu: float
    """Processor time of the hop."""
    delays: tuple[float, ...] = field(repr=False)
    """Of single events, from their writing to their reading."""


@dataclass(frozen=True, slots=True)
class Figures:
    """Medians over the runs of a pressure through a hop."""

    rate: float
    """Events a second that came through."""
    per_cpu: float
    """Events for a second of processor time; zero where there is no hop."""
    late: float
    """99% of events are under way for less, in seconds."""


Medians = dict[tuple[Pressure, str], Figures]


async def measured(
    *, pressures: Sequence[Pressure] = (*STEADY, BURST), seconds: float = SECONDS, rounds: int = ROUNDS
) -> Section:
    """The whole measurement."""
    found: dict[tuple[Pressure, str], list[Sample]] = defaultdict(list)
    for pressure in pressures:
        async with hops.stub(events=round(pressure.pace * seconds), pace=pressure.pace) as upstream:
            for name in interleaved(hops.names(), rounds):
                async with hops.opened(name, upstream) as hop:
                    found[pressure, name].append(await _run(hop, pressure))
    return section({key: _figures(samples) for key, samples in found.items()})


async def _run(hop: Hop, pressure: Pressure) -> Sample:
    load = Load(3)
    body = request(load.envelope(), [load.question()], b'"stream":true')
    timeout = aiohttp.ClientTimeout(total=_LIMIT)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), timeout=timeout) as session:
        cpu, began = hop.cpu(), time.monotonic()
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(_read(session, hop.base, body, probe=number < _PROBES))
                for number in range(pressure.streams)
            ]
        seconds, cpu = time.monotonic() - began, hop.cpu() - cpu
    events, delays = zip(*(task.result() for task in tasks), strict=True)
    return Sample(sum(events), seconds, cpu, tuple(delay for some in delays for delay in some))


async def _read(session: aiohttp.ClientSession, base: str, body: bytes, *, probe: bool) -> tuple[int, list[float]]:
    """How many events came, and of a probe how long each was under way."""
    events, delays = 0, list[float]()
    async with session.post(f"{base}/responses", data=body, headers={"content-type": "application/json"}) as answer:
        if answer.status != 200:  # noqa: PLR2004 - OK
            raise TurnFailed(f"status {answer.status}")
        async for chunk in answer.content.iter_any():
            now = time.monotonic_ns()
            events += chunk.count(_END)
            if probe:
                delays += [(now - int(sent)) / 1e9 for sent in _STAMPS.findall(chunk)]
    return events, delays


def _figures(samples: Sequence[Sample]) -> Figures:
    return Figures(
        median(sample.events / sample.seconds for sample in samples),
        median(sample.events / sample.cpu if sample.cpu else 0.0 for sample in samples),
        median(quantile(sample.delays, 0.99) for sample in samples),
    )


def section(medians: Mapping[tuple[Pressure, str], Figures]) -> Section:
    """The report of these medians."""
    rows: list[tuple[Cell, ...]] = []
    for (pressure, name), found in medians.items():
        added = found.late - medians[pressure, DIRECT].late
        per_cpu: Cell = round(found.per_cpu) if found.per_cpu else ""
        more: Cell = added * 1e3 if name != DIRECT else ""
        rows.append((pressure.streams, pressure.pace, name, round(found.rate), per_cpu, found.late * 1e3, more))
    columns = ("streams", "events/s each", "through", "events/s", "events per CPU s", "p99 under way, ms", "added, ms")
    lines: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for (pressure, name), found in medians.items():
        if found.per_cpu and pressure.pace == STEADY[0].pace:
            lines[name].append((pressure.streams, found.per_cpu))
    return Section(
        "What a hop costs per event",
        (
            "The stub writes each event by itself, at a steady pace on each stream.",
            "*Under way* is from its writing to its reading by the client, *added* the difference to the direct way.",
            "Stub, hop and client share the machine's processors.",
        ),
        (Table("By number of streams", columns, tuple(rows)),),
        (Plot("relay", "Events per second of processor time", "streams of 1,000 events/s", "events", dict(lines)),),
        tuple(_findings(medians)),
    )


def _findings(medians: Mapping[tuple[Pressure, str], Figures]) -> Iterable[Finding]:
    steady = [pressure for pressure, name in medians if name == SIDECAR and pressure.pace == STEADY[0].pace]
    for pressure in steady:
        ratio = times(medians[pressure, SIDECAR].per_cpu, medians[pressure, NAIVE].per_cpu)
        yield Finding(f"events per CPU second, sidecar : {NAIVE}, {pressure.streams} streams", 0.8, ratio)
    ceiling = max((medians[pressure, SIDECAR].per_cpu for pressure in steady), default=0.0)
    for pressure in steady:
        if pressure.streams * pressure.pace <= _PART * ceiling:
            late = medians[pressure, SIDECAR].late - medians[pressure, DIRECT].late
            claim = f"p99 added delay, ms, {pressure.streams} streams (70% of the ceiling is {_PART * ceiling:,.0f}/s)"
            yield Finding(claim, _LATE * 1e3, late * 1e3, at_least=False)
    if (BURST, SIDECAR) in medians:
        rate = medians[BURST, SIDECAR].rate / BURST.streams
        yield Finding(f"events/s on each of {BURST.streams} streams of {BURST.pace}/s", _CARRIED * BURST.pace, rate)
