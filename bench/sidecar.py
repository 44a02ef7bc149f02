"""A sidecar as users start it: a child process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SidecarFactory = Callable[[str], AbstractAsyncContextManager[str]]
"""Takes the base URL of an upstream, gives the origin (`http://host:port`) at which clients reach it."""

START_LIMIT = 30.0
"""Seconds within which a sidecar has to listen."""
STOP_LIMIT = 15.0
"""Seconds that it gets to end by itself."""
_LISTENING = re.compile(rb"deltawire (proxy|admin) listening on (http://\S+)")
_TAIL = 2000  # bytes of the log that an error quotes
_PREFIX = "DELTAWIRE_"


class SidecarFailed(RuntimeError):
    """The sidecar did not come up. Carries the end of its log."""


@contextlib.asynccontextmanager
async def spawned(upstream: str, *options: str, command: Sequence[str] | None = None) -> AsyncIterator[str]:
    """`deltawire proxy` before this upstream, on free ports of loopback. Settings of the environment do not count."""
    argv = [*(command or (sys.executable, "-m", "proxy.cli", "proxy")), "--upstream", upstream]
    argv += ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", *options]
    with tempfile.TemporaryFile() as log:
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
            env=_clean(os.environ),
        )
        try:
            yield await _listening(process.stdout, log)
        finally:
            await _end(process)


async def _listening(stdout: asyncio.StreamReader | None, log: IO[bytes]) -> str:
    """The client side's origin, once both listeners are up."""
    found: dict[bytes, bytes] = {}
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(START_LIMIT):
            while stdout is not None and (line := await stdout.readline()):
                if match := _LISTENING.search(line):
                    found[match[1]] = match[2]
                if found.keys() >= {b"proxy", b"admin"}:
                    return found[b"proxy"].decode()
    log.seek(0)
    raise SidecarFailed(log.read()[-_TAIL:].decode(errors="replace") or "It ended without a word.")


async def _end(process: asyncio.subprocess.Process) -> None:
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
