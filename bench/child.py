"""Commands as users start them: child processes, and what the system says of them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Mapping, Sequence

START_LIMIT = 30.0
"""Seconds within which a command has to listen."""
STOP_LIMIT = 15.0
"""Seconds that it gets to end by itself."""
COMMAND = (sys.executable, "-m", "proxy.cli")
"""The project's own command."""
_LISTENING = re.compile(rb"deltawire ([\w-]+) listening on (https?://\S+)")
_TAIL = 2000  # bytes of the log that an error quotes
_PREFIX = "DELTAWIRE_"
_KIB = 1024


class StartFailed(RuntimeError):
    """The command did not come up. Carries the end of its log."""


@dataclass(frozen=True, slots=True)
class Child:
    """A running command. `urls` are the origins of its listeners by name."""

    pid: int
    urls: Mapping[str, str]

    def cpu(self) -> float:
        """Seconds of processor time so far, of all its threads."""
        # The number that clock_getcpuclockid(3) gives for another process.
        return time.clock_gettime(~self.pid << 3 | 2)

    def resident(self) -> int:
        """Bytes of memory that it holds now."""
        status = Path(f"/proc/{self.pid}/status").read_text(encoding="ascii")
        return next(int(line.split()[1]) * _KIB for line in status.splitlines() if line.startswith("VmRSS:"))


def cpu_of(child: Child | None) -> float:
    """Its processor seconds so far; none where there is no child."""
    return child.cpu() if child is not None else 0.0


@contextlib.asynccontextmanager
async def running(
    argv: Sequence[str], wait_for: Collection[str], environment: Mapping[str, str] | None = None
) -> AsyncIterator[Child]:
    """The command, once it says that these listeners are up. Settings of the environment do not count.

    Raises `StartFailed`.
    """
    with tempfile.TemporaryFile() as log:
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
            env=_clean(os.environ) | dict(environment or {}),
        )
        try:
            yield Child(process.pid, await _listening(process.stdout, frozenset(wait_for), log))
        finally:
            await ended(process)


async def _listening(
    stdout: asyncio.StreamReader | None, wait_for: frozenset[str], log: IO[bytes]
) -> Mapping[str, str]:
    found: dict[str, str] = {}
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(START_LIMIT):
            while stdout is not None and (line := await stdout.readline()):
                if match := _LISTENING.search(line):
                    found[match[1].decode()] = match[2].decode()
                if found.keys() >= wait_for:
                    return found
    log.seek(0)
    raise StartFailed(log.read()[-_TAIL:].decode(errors="replace") or "It ended without a word.")


async def ended(process: asyncio.subprocess.Process) -> None:
    """Ask the process to end; kill one that does not within `STOP_LIMIT`."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
    try:
        async with asyncio.timeout(STOP_LIMIT):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


def _clean(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if not name.startswith(_PREFIX)}
