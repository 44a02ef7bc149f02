"""A soak: random agents against real sidecars and upstreams with faults, restarts of both, and a verdict on every turn."""

from __future__ import annotations

import asyncio
import random
import statistics
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from time import monotonic
from typing import TYPE_CHECKING, Any

import aiohttp

from tests.soak.agents import Agent, Client
from tests.soak.judge import Judge
from tests.soak.stage import KEY, MARKER, Sample, Sidecar, Upstream

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TENANTS = 4
COUNTED = ("context", "tenants", "duplicates", "visible", "stuck", "leaks", "secrets", "exits")
"""What is counted, and has to be nothing."""
_OPTIONS = ("--log-level", "info", "--ping-interval", "5s", "--drain", "5s")
_SPARE_TASKS = 40
_FLAT = (1.10, 8 * 1024)
"""Growth of memory from the second quarter to the last that is none: a factor, and KiB beyond it."""
_HELD: dict[str, Callable[[Sample], int]] = {
    "links": lambda one: one.links,
    "heads": lambda one: one.heads,
    "tasks beside links": lambda one: one.tasks - 2 * one.links,
    "rss": lambda one: one.rss,
    "files beside links": lambda one: one.files - one.links,
}
"""What is to stay as it is. A link has two tasks and a file, and there are as many as there is talk, up to a limit."""
_FEW = 12
"""Samples below which nothing is said of growth."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How long: `turns` at least, `on_links` of them over links, or `minutes`. `restart`: turns between two restarts."""

    seed: int = 0
    turns: int | None = None
    on_links: int = 0
    minutes: float | None = None
    agents: int = 24
    faults: float = 0.1
    restart: int = 2000
    sample: float = 5.0


@dataclass
class Verdict:
    """What a soak found."""

    seed: int
    seconds: float
    turns: int
    upstream_turns: int
    faults: int
    wrong: dict[str, int]
    restarts: dict[str, int]
    ways: dict[str, int]
    seen: dict[str, int]
    fault_names: dict[str, int]
    growth: dict[str, Any]
    shown: list[str] = field(default_factory=list)
    samples: list[dict[str, float]] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        """Whether nothing is wrong, and deltas were among what was tried."""
        return not any(self.wrong.values()) and self.ways.get("delta", 0) > 0 and self.faults > 0


class Soak:
    """One soak, in `folder`."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        self._plan = plan
        self._judge = Judge()
        # One upstream as services are, one that speaks our extensions. The sidecar before the second one is never
        # restarted: what it holds is to stay as little as it is.
        self._upstreams = [
            Upstream(name, seed=plan.seed, faults=plan.faults, own=own)
            for name, own in (("plain", False), ("own", True))
        ]
        small = ("--max-state", "256KiB")
        self._sidecars = [
            Sidecar(folder / "plain", self._upstreams[0], *_OPTIONS, *small, "--max-links", "40"),
            Sidecar(
                folder / "own", self._upstreams[1], *_OPTIONS, *small, "--link-max-age", "20s", "--max-links", "64"
            ),
        ]
        self._samples: list[Sample] = []
        self._restarts = {"sidecar told to end": 0, "sidecar killed": 0, "upstream": 0}
        self._began = 0.0

    def _enough(self) -> bool:
        plan = self._plan
        if plan.turns is not None:
            # A fast machine is through with the turns before everything was restarted, and while gates are still shut.
            on_links = self._judge.ways["delta"] + self._judge.ways["full"]
            return self._judge.tries >= plan.turns and on_links >= plan.on_links and all(self._restarts.values())
        return monotonic() - self._began >= 60 * (plan.minutes or 0)

    async def run(self) -> Verdict:
        """All of it."""
        self._began = monotonic()
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
            try:
                for upstream in self._upstreams:
                    await upstream.start()
                await asyncio.gather(*(sidecar.start() for sidecar in self._sidecars))
                began = monotonic()
                watching = asyncio.ensure_future(self._watch(session))
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._disturb())
                    for number in range(self._plan.agents):
                        group.create_task(self._agent(session, number).live())
                watching.cancel()
                with suppress(asyncio.CancelledError):
                    await watching
                seconds = monotonic() - began
                await self._at_rest(session)
            finally:
                for sidecar in self._sidecars:
                    await sidecar.stop()
                for upstream in self._upstreams:
                    await upstream.stop()
        return self._verdict(seconds)

    def _agent(self, session: aiohttp.ClientSession, number: int) -> Agent:
        choose = random.Random(f"{self._plan.seed} agent {number}")  # noqa: S311 - repeatable on purpose
        client = Client(session, self._sidecars[number % 2], self._judge, choose)
        return Agent(client, f"tenant-{number // 2 % TENANTS}", self._enough)

    async def _disturb(self) -> None:
        """Restart one thing after the other, every so many turns."""
        plan, (first, _), judge = self._plan, self._sidecars, self._judge
        steps: list[tuple[str, Callable[[], Any]]] = [
            ("upstream", self._upstreams[1].restart),
            ("sidecar told to end", lambda: first.restart(kill=False)),
            ("upstream", self._upstreams[0].restart),
            ("sidecar killed", lambda: first.restart(kill=True)),
        ]
        at, due = 0, plan.restart
        while not self._enough():
            await asyncio.sleep(0.1)
            if judge.tries >= due:
                name, restart = steps[at % len(steps)]
                at, due = at + 1, due + plan.restart
                self._restarts[name] += 1
                for upstream in self._upstreams:
                    judge.collect(upstream)
                await restart()

    async def _watch(self, session: aiohttp.ClientSession) -> None:
        while True:
            await asyncio.sleep(self._plan.sample)
            self._samples.append(await self._sidecars[1].sample(session))

    async def _at_rest(self, session: aiohttp.ClientSession) -> None:
        """With no turn any more nothing is held: no link is busy, no head is leased, no task is left over."""
        judge = self._judge
        for upstream, sidecar in zip(self._upstreams, self._sidecars, strict=True):
            found = await sidecar.sample(session)
            for _ in range(100):
                if _rests(found):
                    break
                await asyncio.sleep(0.1)
                found = await sidecar.sample(session)
            judge.collect(upstream)
            leases = await sidecar.leases(session)
            if leases or not _rests(found):
                judge.blame("leaks", f"{upstream.name} at rest: {found}, {leases} leases")
            open_there = sum(not one.closed.is_set() for one in upstream.up.connections)
            if open_there > found.links + 2:
                judge.blame("leaks", f"{upstream.name}: {open_there} connections for {found.links} links")

    def _verdict(self, seconds: float) -> Verdict:
        judge = self._judge
        for upstream in self._upstreams:
            judge.collect(upstream)
            for violation in upstream.violations:
                judge.blame("context", violation)
        self._of_processes()
        names: dict[str, int] = {}
        for upstream in self._upstreams:
            for name, count in upstream.shown.items():
                names[name] = names.get(name, 0) + count
        growth = self._growth()
        return Verdict(
            seed=self._plan.seed,
            seconds=round(seconds, 1),
            turns=judge.tries,
            upstream_turns=judge.upstream_turns,
            faults=sum(names.values()),
            wrong={name: judge.wrong[name] for name in COUNTED},
            restarts=self._restarts,
            ways=dict(judge.ways.most_common()),
            seen=dict(judge.kinds.most_common()),
            fault_names=dict(sorted(names.items())),
            growth=growth,
            shown=judge.shown,
            samples=[asdict(sample) for sample in self._samples],
        )

    def _of_processes(self) -> None:
        """How sidecars ended, and what they wrote."""
        judge = self._judge
        for sidecar in self._sidecars:
            for code in sidecar.exits:
                if code:
                    judge.blame("exits", f"a sidecar that was told to end said {code}")
            for text in sidecar.written():
                if KEY in text or MARKER in text:
                    judge.blame("secrets", "a process wrote content or a key")
                if "Traceback" in text or '"level":"error"' in text:
                    judge.blame("exits", "a process wrote of a failure of its own")

    def _growth(self) -> dict[str, Any]:
        """Medians of the second quarter of the samples and of the last; what grew is a leak."""
        count = len(self._samples)
        if count < _FEW:
            return {"samples": count}
        early, late = self._samples[count // 4 : count // 2], self._samples[3 * count // 4 :]
        found: dict[str, Any] = {"samples": count}
        for name, held in _HELD.items():
            before, after = (statistics.median(map(held, part)) for part in (early, late))
            found[name] = [before, after]
            beyond = _FLAT[1] if name == "rss" else 32
            if after > before * _FLAT[0] + beyond:
                self._judge.blame("leaks", f"{name} grew from {before} to {after}")
        return found


def _rests(found: Sample) -> bool:
    return not found.busy and found.tasks <= 2 * found.links + _SPARE_TASKS
