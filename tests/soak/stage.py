"""What a soak plays on: upstreams with faults in this process, each with a sidecar before it that is a process of its own."""

from __future__ import annotations

import asyncio
import json
import os
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING, Any

from prometheus_client.parser import text_string_to_metric_families

from tests.support.commands import Command
from upstream.scripted import Play, ScriptedUpstream, Turn, function_call, message, reasoning
from upstream.scripted.chaos import Chaos
from wire.split import Malformed, members

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import aiohttp

Json = dict[str, Any]

AFTERMATH = 3.0
"""Seconds in which turns may still feel that a process was restarted."""
KEPT = 3000
MARKER = "unspeakable"
"""Part of every text of every conversation; whatever a process writes may not hold it."""
KEY = "sk-soak-"
_PAUSE = 0.05
_RARE = {"big": 0.0005, "silent": 0.002, "stalled": 0.002}


def rates(faults: float) -> dict[str, float]:
    """Rates with which about so many turns have a fault. Some are not had by every turn, and some take long."""
    return {"all": faults * 1.25, **{name: min(rate, faults) for name, rate in _RARE.items()}, "upgrade-503": 0.005}


@dataclass
class Outages:
    """When something was not there, or had just come back."""

    spans: list[list[float]] = field(default_factory=list)

    def begin(self) -> None:
        """It goes away now."""
        self.spans.append([monotonic(), float("inf")])

    def end(self) -> None:
        """It is there again."""
        self.spans[-1][1] = monotonic() + AFTERMATH

    def within(self, since: float) -> bool:
        """Whether there was any time since then in which it was not there."""
        return any(since <= end for _, end in self.spans[-3:])


def tenant_of(turn: Turn) -> str:
    """Whose credentials a turn came with."""
    return turn.headers.get("authorization", "").removeprefix(f"Bearer {KEY}")


def number_of(turn: Turn) -> int:
    """The number of the body that a turn was sent for."""
    try:
        metadata = json.loads(members(turn.raw).get("metadata", turn.members.get("metadata", b"{}")))
    except Malformed:
        return 0
    return int(metadata.get("n", 0))


def said(turn: Turn) -> list[Json]:
    """The answer to a turn: it names the tenant and the body that it is for."""
    body = turn.body
    items: list[Json] = []
    if body.get("include"):
        items.append(reasoning(f"sealed-{MARKER}-{turn.response_id}{turn.number}"))
    if body.get("tools") and turn.number % 3:
        items.append(function_call(f"call_{turn.number}", "run", json.dumps({"b": 1, "a": tenant_of(turn)})))
    items.append(message(f"{MARKER} {tenant_of(turn)} {number_of(turn)}"))
    return items


@dataclass(frozen=True, eq=False, slots=True)
class Arrival:
    """A turn that an upstream got, in one of its lives."""

    turn: Turn
    life: int


class Upstream:
    """An upstream with faults that can be restarted. Turns of all its lives come out once each, in order."""

    def __init__(self, name: str, *, seed: int, faults: float, own: bool) -> None:
        self.name = name
        self.outages = Outages()
        self.lives = 0
        self.violations: list[str] = []
        self.shown: dict[str, int] = {}
        self._seed = seed
        self._rates = rates(faults)
        self._own = own
        self._port = 0
        self._taken = 0
        self._last: list[Arrival] = []
        self._faults: OrderedDict[tuple[int, int], str] = OrderedDict()
        self._chaos = Chaos({})
        self._up: ScriptedUpstream | None = None

    @property
    def up(self) -> ScriptedUpstream:
        """The one that serves now."""
        assert self._up is not None
        return self._up

    @property
    def url(self) -> str:
        """Its base URL, the same for all its lives."""
        return f"http://127.0.0.1:{self._port}/v1"

    async def start(self) -> None:
        """Serve, with nothing remembered of any life before."""
        self.lives += 1
        self._chaos = Chaos(self._rates, seed=self._seed * 1000 + self.lives, pause=_PAUSE, items=said)
        self._up = ScriptedUpstream(
            self._play,
            upgrades=self._chaos.upgrade,
            envelope=self._own,
            append=self._own,
            context=self._own,
            keep=KEPT,
            name=f"{self.name}{self.lives}_",
            listen=("127.0.0.1", self._port),
        )
        await self._up.__aenter__()
        self._port = int(self._up.url.split(":")[2].removesuffix("/v1"))
        self._taken = 0

    def _play(self, turn: Turn) -> Play:
        name = self._chaos.fault(turn)
        if name:
            self.shown[name] = self.shown.get(name, 0) + 1
            self._faults[self.lives, turn.number] = name
            if len(self._faults) > KEPT:
                self._faults.popitem(last=False)
        return self._chaos.play(turn)

    async def stop(self) -> None:
        """Break off everything."""
        if self._up is not None:
            await self._up.__aexit__(None, None, None)
            self._last += self._new(self._up)  # what came until the very end
            self.violations += self._up.violations
            self._up = None

    async def restart(self) -> None:
        """Break off everything, and serve again a moment later."""
        self.outages.begin()
        await self.stop()
        await asyncio.sleep(0.2)
        await self.start()
        self.outages.end()

    def fault(self, arrival: Arrival) -> str:
        """The fault that a turn was given; empty when it had none so far."""
        return self._faults.get((arrival.life, arrival.turn.number), "")

    def arrived(self) -> list[Arrival]:
        """Turns that came since this was last asked."""
        before, self._last = self._last, []
        return before + (self._new(self._up) if self._up is not None else [])

    def _new(self, up: ScriptedUpstream) -> list[Arrival]:
        found: list[Arrival] = []
        for turn in reversed(up.turns):
            if turn.number <= self._taken:
                break
            found.append(Arrival(turn, self.lives))
        if found:
            self._taken = found[0].turn.number
        return found[::-1]


@dataclass(frozen=True)
class Sample:
    """What a sidecar holds at a moment: its links, heads and tasks, its memory in KiB, its open files."""

    at: float
    links: int
    busy: int
    heads: int
    tasks: int
    rss: int
    files: int


class Sidecar:
    """A sidecar before one upstream. It can be told to end, or killed, and comes back at the same address."""

    def __init__(self, folder: Path, upstream: Upstream, *options: str) -> None:
        self.upstream = upstream
        self.outages = Outages()
        self.lives = 0
        self.exits: list[int] = []
        self.there = asyncio.Event()
        self._folder = folder
        self._options = options
        self._listen = self._admin = "127.0.0.1:0"
        self._command: Command | None = None

    @property
    def url(self) -> str:
        """Where turns go."""
        return f"http://{self._listen}/v1/responses"

    async def start(self) -> None:
        """Start the process, and wait until it serves."""
        self.lives += 1
        options = ("--upstream", self.upstream.url, "--listen", self._listen, "--admin", self._admin, *self._options)
        command = self._command = Command(self._folder / str(self.lives), "proxy", *options)
        self._listen = (await asyncio.to_thread(command.url, "proxy")).removeprefix("http://")
        self._admin = (await asyncio.to_thread(command.url, "admin")).removeprefix("http://")
        self.there.set()

    async def stop(self, *, kill: bool = False) -> None:
        """End it: told to, it lets turns end, and its exit code is to be 0."""
        self.there.clear()
        if self._command is None:
            return
        if kill:
            self._command.process.kill()
            await asyncio.to_thread(self._command.process.wait)
        else:
            self.exits.append(await asyncio.to_thread(self._command.stop))
        self._command = None

    async def restart(self, *, kill: bool) -> None:
        """End it and start it again."""
        self.outages.begin()
        await self.stop(kill=kill)
        await self.start()
        self.outages.end()

    async def sample(self, session: aiohttp.ClientSession) -> Sample:
        """What it holds now."""
        assert self._command is not None
        async with session.get(f"http://{self._admin}/metrics") as answer:
            text = await answer.text()
        found = [sample for family in text_string_to_metric_families(text) for sample in family.samples]

        def value(name: str, **labels: str) -> int:
            return int(sum(one.value for one in found if one.name == name and labels.items() <= one.labels.items()))

        folder = f"/proc/{self._command.process.pid}"
        with open(f"{folder}/status", encoding="ascii") as status:  # noqa: PTH123 - not a file, and at once
            rss = next(int(line.split()[1]) for line in status if line.startswith("VmRSS:"))
        return Sample(
            at=monotonic(),
            links=value("deltawire_links"),
            busy=value("deltawire_links", state="busy"),
            heads=value("deltawire_heads"),
            tasks=value("deltawire_tasks"),
            rss=rss,
            files=len(os.listdir(f"{folder}/fd")),  # noqa: PTH208 - as above
        )

    async def leases(self, session: aiohttp.ClientSession) -> int:
        """Heads that some turn holds."""
        async with session.get(f"http://{self._admin}/api/heads") as answer:
            return sum(head["leases"] for head in await answer.json())

    def written(self) -> Iterator[str]:
        """All that its processes wrote."""
        for path in sorted(self._folder.rglob("std*")):
            with suppress(FileNotFoundError):
                yield path.read_text(errors="replace")
