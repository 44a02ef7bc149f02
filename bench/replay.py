"""Recorded traffic through a real sidecar: what the model would see, and what the client does see.

The upstream plays what the mock answered in the recording and checks the context of every turn; the client's bytes
are sent as they were, in their order. Requests that ran at the same time in the recording do so again.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

from bench.arguments import BadWordError, Parser, told
from bench.child import StartFailed
from bench.recorded import Recorded
from bench.report import Report, markdown
from bench.run import Run
from bench.sidecar import SidecarFactory, spawned
from bench.trace import HttpRequest, TraceError, WsMessage, files, read
from upstream.scripted import ScriptedUpstream
from wire.extensions import APPEND, CONTEXT, ENVELOPE

if TYPE_CHECKING:
    import argparse
    from collections.abc import Collection, Sequence


_EACH = (ENVELOPE, APPEND, CONTEXT)
_OFFERS = ("none", *(",".join(some) for count in (1, 2, 3) for some in combinations(_EACH, count)))
_ABOUT = "Plays recorded traffic through a real sidecar; exit code 1 on any fault."
_EXPECTED = (OSError, TraceError, StartFailed)


async def replay(path: Path, sidecar: SidecarFactory | None = None, *, features: Collection[str] = ()) -> Report:
    """Replay one recording through a sidecar of its own: the real one, or what the factory starts.

    `features` are the extensions that the upstream offers (docs/wire.md).

    Raises `TraceError` for a file that is no recording, `StartFailed` when the sidecar does not come up.
    """
    trace = read(path)
    if not any(isinstance(line, HttpRequest | WsMessage) for line in trace.lines):
        return Report(trace.name, notes=["nothing in it can be replayed: no request, and no message"])
    recorded = Recorded()
    async with (
        ScriptedUpstream(
            recorded.play,
            others=recorded.reply,
            envelope=ENVELOPE in features,
            append=APPEND in features,
            context=CONTEXT in features,
            script_warmups=True,
        ) as up,
        (sidecar or spawned)(up.url) as origin,
    ):
        run = Run(trace, up, recorded, origin, Report(trace.name))
        await run.run()
    return run.report


async def _all(paths: Sequence[Path], features: Collection[str]) -> list[Report]:
    """Reports in the order of the paths; as many at a time as there are processors, since each has its sidecar."""
    free = asyncio.Semaphore(os.cpu_count() or 1)

    async def one(path: Path) -> Report:
        async with free:
            return await replay(path, features=features)

    tasks = []
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(path)) for path in paths]
    except ExceptionGroup as failed:
        # Not `except*`: the first releases of Python 3.11 wrap what is raised inside it in a group of its own.
        expected, others = failed.split(_EXPECTED)
        if expected is None or others is not None:
            raise
        raise _first(expected) from None
    return [task.result() for task in tasks]


def _first(failed: BaseException) -> BaseException:
    while isinstance(failed, BaseExceptionGroup):
        failed = failed.exceptions[0]
    return failed


def run(words: Sequence[str]) -> int:
    """The command: `main` by its command line."""
    parser = Parser(prog="deltawire replay", allow_abbrev=False, description=_ABOUT)
    parser.add_argument("traces", metavar="TRACE.jsonl", nargs="+", type=Path, help="trace files, or folders of them")
    parser.add_argument("--markdown", metavar="FILE", type=Path, help="write the report as Markdown")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the report as JSON")
    offers = "what the upstream offers: some of envelope, append, context, in this order, by commas; or none"
    parser.add_argument("--features", metavar="NAMES", choices=_OFFERS, default="none", help=offers)

    def checked(given: argparse.Namespace) -> int:
        missing = next((path for path in given.traces if not path.exists()), None)
        if missing is not None:
            raise BadWordError(f"{parser.prog}: {missing}: no such file or folder")
        return main(given.traces, given.markdown, given.json, features=given.features.split(","))

    return told(parser, words, checked)


def main(
    paths: Sequence[Path],
    markdown_file: Path | None = None,
    json_file: Path | None = None,
    *,
    features: Collection[str] = (),
) -> int:
    """Replay recordings and those in folders; print the table. 0 when all is well, 1 when not, 2 for bad input."""
    try:
        reports = asyncio.run(_all(list(files(paths)), features))
    except _EXPECTED as error:
        print(f"deltawire replay: {error}", file=sys.stderr)
        return 2
    if not reports:
        print("deltawire replay: no recordings there", file=sys.stderr)
        return 2
    table = markdown(reports)
    print(table)
    try:
        if markdown_file is not None:
            markdown_file.write_text(table, encoding="utf-8")
        if json_file is not None:
            values = json.dumps([report.as_json() for report in reports], indent=1)
            json_file.write_text(values + "\n", encoding="utf-8")
    except OSError as error:
        print(f"deltawire replay: {error.filename}: {error.strerror}", file=sys.stderr)
        return 2
    return 0 if all(report.ok for report in reports) else 1
