"""A command that serves: from its start to the signal that ends it."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from proxy.commands import LOG_LEVEL
from proxy.options import BadSettingError, parser, values
from telemetry import logs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from proxy.options import Option

Closer: TypeAlias = Callable[[], Awaitable[int | None]]
"""Ends what a command has started. How much of what was to be kept could not be written."""
UNWRITTEN = 3
"""Exit code of a server that could not write all that it was told to keep."""
_ONE_PRESS = 0.5
"""Seconds in which interrupts count as one: wrappers pass on what the terminal sent already."""


def told(
    prog: str, about: str, options: Sequence[Option], words: Sequence[str], environment: Mapping[str, str]
) -> dict[str, Any]:
    """What a command that serves was told; from then on it logs as it was told to."""
    options = (*options, LOG_LEVEL)
    found = values(prog, options, parser(prog, about, options).parse_args(words), environment)
    logs.configure(found.pop("log_level"))
    return found


def serve(prog: str, start: Callable[[], Awaitable[list[Closer]]]) -> int:
    """Start, wait for SIGTERM or SIGINT, and close in the order that `start` returned. The exit code."""

    async def run() -> int:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        try:
            closers = await start()
        except OSError as error:
            raise BadSettingError(f"{prog}: cannot listen: {error.strerror or error}") from None
        except ValueError as error:
            raise BadSettingError(f"{prog}: {error}") from None
        await stop.wait()
        # Running turns get their time; who presses Ctrl-C again does not want to wait for them.
        loop.call_later(_ONE_PRESS, loop.remove_signal_handler, signal.SIGINT)
        lost = 0
        for close in closers:
            lost += await close() or 0
        return lost

    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        lost = runner.run(run())
    if lost:
        sys.stderr.write(f"{prog}: {lost} records of turns could not be written\n")
    return UNWRITTEN if lost else 0


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop  # noqa: PLC0415 - an extra: used when it is there
    except ImportError:
        return None
    return uvloop.new_event_loop
