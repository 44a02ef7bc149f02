"""How long a server needs from a turn's last byte to asking its engine, by generation and size of the history.

The server itself measures it (`/metrics`). The engine writes as fast as it can, so the rest of the time to the first
token is transport. The generations take turns within a size, each with its server and its conversation.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import aiohttp

from bench.speed.figures import interleaved, less, median, times
from bench.speed.results import Finding, Plot, Section, Table
from bench.speed.scrape import Observed, histogram
from bench.speed.turns import Talk
from bench.speed.ways import APPEND, GENERATIONS, HTTP, NONE, SOCKET, Running, Way, opened
from bench.speed.workload import Load, call_id

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from bench.speed.turns import Client

METRIC = "deltawire_upstream_engine_start_seconds"
DELTA = 2000
"""Bytes of the new item."""
SIZES = (10_000, 100_000, 1_000_000, 4_000_000)
MEGABYTE = 1_000_000
ROUNDS = 15
_WARM = 2
_SETTLED = 0.03
"""Seconds after a turn in which its server may still work on it."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One turn. Seconds, but for `sent`, bytes of the request."""

    start: float
    """Received to engine asked."""
    first: float
    """To the first token at the client."""
    server: float
    """Processor time of the server."""
    sent: int


Samples = dict[tuple[int, str], list[Sample]]
"""By size of the history in bytes, and name of the way."""


async def measured(*, sizes: Sequence[int] = SIZES, rounds: int = ROUNDS) -> Section:
    """The whole measurement."""
    found: Samples = defaultdict(list)
    for size in sizes:
        async with AsyncExitStack() as stack, aiohttp.ClientSession() as session:
            sides = []
            for way in GENERATIONS:
                opened_way = await stack.enter_async_context(opened(way))
                side = _Side(way, opened_way, opened_way.client(), session)
                stack.push_async_callback(side.client.close)
                await side.begin(size)
                sides.append(side)
            for side in interleaved(sides, rounds):
                found[size, side.way.name].append(await side.turn())
    return section(found)


@dataclass(slots=True)
class _Side:
    """One generation in its conversation."""

    way: Way
    running: Running
    client: Client
    session: aiohttp.ClientSession
    load: Load = field(default_factory=lambda: Load(1))
    talk: Talk | None = None
    calls: str = ""

    async def begin(self, size: int) -> None:
        """The history, and what makes everything warm."""
        self.talk = Talk(self.load.envelope())
        answer = await self.client.turn(self.talk, self.load.history(size))
        self.calls = call_id(answer.items)
        for _ in range(_WARM):
            await self.turn()

    async def turn(self) -> Sample:
        """One more tool call's output."""
        talk = self.talk
        if talk is None:
            raise RuntimeError("not begun")
        output, server = self.load.output(self.calls, DELTA), self.running.server
        before, cpu = await self._seen(), server.cpu()
        answer = await self.client.turn(talk, [output])
        await asyncio.sleep(_SETTLED)
        cpu = server.cpu() - cpu
        self.calls = call_id(answer.items)
        return Sample((await self._seen()).since(before), answer.first, cpu, answer.sent)

    async def _seen(self) -> Observed:
        async with self.session.get(f"{self.running.server.urls['upstream-admin']}/metrics") as page:
            return histogram(await page.text(), METRIC)


def section(samples: Mapping[tuple[int, str], Sequence[Sample]]) -> Section:
    """The report of these samples."""
    medians = {key: _medians(values) for key, values in samples.items()}
    rows = [
        (f"{size / 1000:,.0f}", name, sample.start * 1e3, sample.first * 1e3, sample.server * 1e3, sample.sent)
        for (size, name), sample in medians.items()
    ]
    columns = ("history, kB", "way", "received to engine, ms", "first token, ms", "server CPU, ms", "sent, bytes")
    rounds = min(map(len, samples.values()))
    return Section(
        "From a turn's last byte to its engine",
        (
            f"A history of tool calls, then turns that add the output of one more, {DELTA} bytes.",
            f"Medians of {rounds} turns of each way, which take turns. The engine writes at once.",
            *(f"*{way.name}*: {way.about}." for way in GENERATIONS),
        ),
        (Table("By history", columns, tuple(rows)),),
        (
            _plot("start", "Received to engine asked", medians, "start"),
            _plot("first-token", "Time to first token at the client", medians, "first"),
        ),
        tuple(_findings(medians)),
    )


def _medians(samples: Sequence[Sample]) -> Sample:
    return Sample(
        median(sample.start for sample in samples),
        median(sample.first for sample in samples),
        median(sample.server for sample in samples),
        round(median(sample.sent for sample in samples)),
    )


def _findings(medians: Mapping[tuple[int, str], Sample]) -> Iterable[Finding]:
    sizes = sorted({size for size, _ in medians})
    at = MEGABYTE if MEGABYTE in sizes else sizes[-1]
    where = f"at {at / 1000:,.0f} kB"
    none, http, socket = (medians[at, way.name] for way in (NONE, HTTP, SOCKET))
    small, large = medians[sizes[0], SOCKET.name], medians[sizes[-1], SOCKET.name]
    yield Finding(f"received to engine, {NONE.name} : {SOCKET.name}, {where}", 20, times(none.start, socket.start))
    yield Finding(
        f"received to engine, {SOCKET.name}, {sizes[-1] / 1000:,.0f} kB : {sizes[0] / 1000:,.0f} kB",
        1.5,
        times(large.start, small.start),
        at_least=False,
    )
    yield Finding(f"first token, {HTTP.name} less than {NONE.name}, {where}", 0.45, less(http.first, none.first))
    yield Finding(
        f"received to engine, {APPEND.name} : {SOCKET.name}, {where}",
        1.5,
        times(medians[at, APPEND.name].start, socket.start),
        at_least=False,
    )


def _plot(name: str, title: str, medians: Mapping[tuple[int, str], Sample], member: str) -> Plot:
    lines: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for (size, way), sample in medians.items():
        lines[way].append((size / 1000, getattr(sample, member) * 1e3))
    return Plot(name, title, "history, kB", "ms", dict(lines), logarithmic=True)
