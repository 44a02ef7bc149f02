"""What a hop adds to a turn: latency and processor time, by size of the history.

A client of plain HTTP says the same turns directly to a stub, through the sidecar, and through peers that copy bytes.
Each has its own conversation, and they take turns. What is added is the difference of medians to the direct way.
"""

from __future__ import annotations

from collections import defaultdict
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.speed import hops
from bench.speed.figures import interleaved, median, times
from bench.speed.hops import DIRECT, NAIVE, SIDECAR
from bench.speed.results import Cell, Finding, Plot, Section, Table
from bench.speed.turns import Http, Talk, TurnFailed
from bench.speed.workload import Load

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from bench.speed.hops import Hop

SIZES = (10_000, 100_000, 1_000_000, 4_000_000, 16_000_000)
ROUNDS = 25
_BYTES = 300_000_000
"""Bytes after which a size has had enough rounds, but for `_LEAST`."""
_LEAST = 7
EVENTS = 20
DELTA = 2000
_WARM = 2
_FRAME = 8_000_000


@dataclass(frozen=True, slots=True)
class Sample:
    """One turn, in seconds: the whole of it at the client, and the hop's processor time."""

    whole: float
    cpu: float


Medians = dict[tuple[int, str], Sample]
"""By size of the history in bytes, and name of the hop."""


async def measured(*, sizes: Sequence[int] = SIZES, rounds: int = ROUNDS) -> Section:
    """The whole measurement."""
    found: dict[tuple[int, str], list[Sample]] = defaultdict(list)
    for size in sizes:
        async with AsyncExitStack() as stack:
            upstream = await stack.enter_async_context(hops.stub(events=EVENTS))
            sides = [_Side(await stack.enter_async_context(hops.opened(name, upstream))) for name in hops.names()]
            for side in sides:
                stack.push_async_callback(side.client.close)
                await side.begin(size)
            for side in interleaved(sides, min(rounds, max(_LEAST, _BYTES // size))):
                found[size, side.hop.name].append(await side.turn())
    return section({key: _median(samples) for key, samples in found.items()})


class _Side:
    """One hop with its conversation."""

    def __init__(self, hop: Hop) -> None:
        self.hop, self.client, self._load = hop, Http(hop.base), Load(2)
        self._talk = Talk(self._load.envelope())

    async def begin(self, size: int) -> None:
        for _ in range(-(-size // _FRAME)):  # frames have a limit, so that a long history is not begun by one
            await self.client.turn(self._talk, self._load.history(min(size, _FRAME)))
        for _ in range(_WARM):
            await self.turn()

    async def turn(self) -> Sample:
        cpu = self.hop.cpu()
        answer = await self.client.turn(self._talk, [self._load.output("call_1", DELTA)])
        if self.hop.name == SIDECAR and answer.transport != "delta":
            raise TurnFailed(f"a turn that should be a delta went by {answer.transport}")
        return Sample(answer.whole, self.hop.cpu() - cpu)


def section(medians: Mapping[tuple[int, str], Sample]) -> Section:
    """The report of these medians."""
    added = {
        (size, name): Sample(sample.whole - medians[size, DIRECT].whole, sample.cpu)
        for (size, name), sample in medians.items()
        if name != DIRECT
    }
    rows: list[tuple[Cell, ...]] = []
    for (size, name), sample in sorted(medians.items(), key=lambda one: one[0][0]):
        more = [
            sample.whole * 1e3,
            *(("", "") if name == DIRECT else (added[size, name].whole * 1e3, sample.cpu * 1e3)),
        ]
        rows.append((f"{size / 1000:,.0f}", name, *more))
    columns = ("history, kB", "through", "turn, ms", "added, ms", "CPU of the hop, ms")
    return Section(
        "What a hop adds to a turn",
        (
            f"Each turn sends the whole history and {DELTA} new bytes. The stub answers at once, {EVENTS} events.",
            "Medians; *added* is the difference to the direct way.",
        ),
        (Table("By history", columns, tuple(rows)),),
        (
            Plot(
                "overhead",
                "Added to a turn",
                "history, kB",
                "ms",
                _lines(added),
                logarithmic=all(sample.whole > 0 for sample in added.values()),
            ),
        ),
        tuple(_findings(added)),
    )


def _findings(added: Mapping[tuple[int, str], Sample]) -> Iterable[Finding]:
    sizes = sorted({size for size, _ in added})
    for size in sizes:
        most = 1.2 if size >= 1_000_000 else 1.5  # noqa: PLR2004 - the bounds are the claim
        found = times(added[size, SIDECAR].whole, added[size, NAIVE].whole)
        yield Finding(f"added latency, sidecar : {NAIVE}, {size / 1000:,.0f} kB", most, found, at_least=False)
    small, large = (100_000, 4_000_000) if {100_000, 4_000_000} <= set(sizes) else (sizes[0], sizes[-1])
    grown = {name: added[large, name].whole - added[small, name].whole for name in (SIDECAR, NAIVE)}
    claim = f"growth of it from {small / 1000:,.0f} to {large / 1000:,.0f} kB, sidecar : {NAIVE}"
    yield Finding(claim, 1.0, times(grown[SIDECAR], grown[NAIVE]), at_least=False)


def _lines(added: Mapping[tuple[int, str], Sample]) -> dict[str, list[tuple[float, float]]]:
    lines: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for (size, name), sample in added.items():
        lines[name].append((size / 1000, sample.whole * 1e3))
    return dict(lines)


def _median(samples: Sequence[Sample]) -> Sample:
    return Sample(median(sample.whole for sample in samples), median(sample.cpu for sample in samples))
