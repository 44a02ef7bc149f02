"""`deltawire bench`: which measurements are made, and where their report goes."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from bench.arguments import BadWordError, Parser, told
from bench.child import StartFailed
from bench.speed import headline, machine, memory, overhead, plots, relay, start
from bench.speed.results import Section, markdown
from bench.speed.serving import loop_factory
from bench.speed.turns import TurnFailed

if TYPE_CHECKING:
    import argparse
    from collections.abc import Awaitable, Callable, Sequence

_FEW = (10_000, 200_000)
_LIGHT = (relay.STEADY[0], relay.STEADY[1], relay.BURST)
PARTS: dict[str, Callable[[bool], Awaitable[Section]]] = {
    "start": lambda quick: start.measured(sizes=_FEW, rounds=3) if quick else start.measured(),
    "headline": lambda quick: headline.measured(scenarios=headline.QUICK) if quick else headline.measured(),
    "overhead": lambda quick: overhead.measured(sizes=_FEW, rounds=3) if quick else overhead.measured(),
    "relay": lambda quick: relay.measured(pressures=_LIGHT, seconds=0.5, rounds=1) if quick else relay.measured(),
    "memory": lambda quick: memory.measured(conversations=20) if quick else memory.measured(),
}
"""Measurements by name; each is told whether it has to be quick."""
_ABOUT = "Measures how fast the sidecar and the server are, on real processes of its own, and reports."
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_STOPPED = 130
_EXPECTED = (OSError, StartFailed, TurnFailed, ValueError)


def run(words: Sequence[str]) -> int:
    """The command: `main` by its command line."""
    names = ", ".join(PARTS)
    parser = Parser(prog="deltawire bench", allow_abbrev=False, description=_ABOUT)
    parser.add_argument("parts", metavar="PART", nargs="*", help=f"some of {names}, or all (the default)")
    parser.add_argument("--out", metavar="DIR", type=Path, help="write report.md, results.json and plots into a folder")
    parser.add_argument("--quick", action="store_true", help="few turns and small sizes: shows that it works")

    def checked(given: argparse.Namespace) -> int:
        strange = next((part for part in given.parts if part not in {*PARTS, "all"}), None)
        if strange is not None:
            raise BadWordError(f"{parser.prog}: some of {names}, or all, are needed, not {strange!r}")
        parts = list(PARTS) if not given.parts or "all" in given.parts else given.parts
        return main(parts, given.out, quick=given.quick)

    return told(parser, words, checked)


def main(parts: Sequence[str], out: Path | None, *, quick: bool) -> int:
    """Make the measurements, print their report, and write it into a folder.

    0; 2 where one could not be made; 130 where a signal ended them.
    """
    try:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            sections = runner.run(_all(parts, quick=quick))
        if out is not None:
            out.mkdir(parents=True, exist_ok=True)
        text = _report(sections, out, quick=quick)
    except asyncio.CancelledError:
        print("deltawire bench: stopped", file=sys.stderr)
        return _STOPPED
    except _EXPECTED as error:
        print(f"deltawire bench: {error}", file=sys.stderr)
        return 2
    print(text)
    return 0


async def _all(parts: Sequence[str], *, quick: bool) -> list[Section]:
    _stoppable()
    sections = []
    for name in parts:
        print(f"deltawire bench: {name} ...", file=sys.stderr, flush=True)
        sections.append(await PARTS[name](quick))
    return sections


def _stoppable() -> None:
    """SIGINT and SIGTERM end the measurement and all that it has started; further ones change nothing."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()

    def stop() -> None:
        for number in _SIGNALS:
            loop.add_signal_handler(number, lambda: None)
        if task is not None:
            task.cancel()

    for number in _SIGNALS:
        loop.add_signal_handler(number, stop)


def _report(sections: Sequence[Section], out: Path | None, *, quick: bool) -> str:
    drawn = out is not None and plots.available()
    preface = [f"`{machine.command()}` on {machine.about()}"]
    if quick:
        preface.append("A quick run: few turns and small sizes. It shows that everything works, not how fast.")
    if out is not None and not drawn:
        preface.append("No plots: matplotlib is not installed (in the checkout: `pip install -e '.[bench]'`).")
    text = markdown("Measured", preface, sections, plotted=drawn)
    if out is not None:
        (out / "report.md").write_text(text, encoding="utf-8")
        values = json.dumps([asdict(section) for section in sections], indent=1)
        (out / "results.json").write_text(values + "\n", encoding="utf-8")
        if drawn:
            plots.draw([plot for section in sections for plot in section.plots], out)
    return text
