"""What may stand between a client and the stub: nothing, the sidecar, or a peer."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from bench.child import COMMAND, START_LIMIT, Child, cpu_of, running
from bench.speed import nginx

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

DIRECT = "direct"
NAIVE = "naive pass-through"
NGINX = "nginx"
SIDECAR = "sidecar"
_RETRY = 0.02


@dataclass(frozen=True, slots=True)
class Hop:
    """A way to the stub. `child` is what stands in between."""

    name: str
    base: str
    child: Child | None

    def cpu(self) -> float:
        """Its processor seconds so far."""
        return cpu_of(self.child)


def names() -> list[str]:
    """Those that can be had here."""
    return [DIRECT, NAIVE, *([NGINX] if nginx.path() is not None else []), SIDECAR]


@contextlib.asynccontextmanager
async def stub(*, events: int, pace: float = 0.0) -> AsyncIterator[str]:
    """The stub's origin."""
    argv = [sys.executable, "-m", "bench.speed.stub", "--events", str(events), "--pace", f"{pace:g}"]
    async with running(argv, {"stub"}) as child:
        yield child.urls["stub"]


@contextlib.asynccontextmanager
async def opened(name: str, upstream: str) -> AsyncIterator[Hop]:
    """The hop of this name before the stub's origin. Raises `StartFailed`."""
    if name == DIRECT:
        yield Hop(name, f"{upstream}/v1", None)
        return
    with tempfile.TemporaryDirectory(prefix="deltawire-nginx-") as folder:
        argv, listener = _command(name, upstream, folder)
        async with running(argv, {listener}) as child:
            origin = child.urls[listener]
            await _reachable(origin)
            yield Hop(name, f"{origin}/v1", child)


def _command(name: str, upstream: str, folder: str) -> tuple[list[str], str]:
    if name == SIDECAR:
        loopback = "127.0.0.1:0"
        told = ["--listen", loopback, "--admin", loopback, "--max-links", "1024", "--log-level", "warning"]
        return [*COMMAND, "proxy", *told, "--upstream", f"{upstream}/v1"], "proxy"
    if name == NAIVE:
        return [sys.executable, "-m", "bench.speed.passthrough", "--upstream", upstream], "passthrough"
    return [sys.executable, "-m", "bench.speed.nginx", "--upstream", upstream, "--folder", folder], "nginx"


async def _reachable(origin: str) -> None:
    """Wait until it listens: nginx says so a moment too early."""
    parts = urlsplit(origin)
    async with asyncio.timeout(START_LIMIT):
        while True:
            with contextlib.suppress(ConnectionError):
                _, writer = await asyncio.open_connection(parts.hostname, parts.port)
                writer.close()
                await writer.wait_closed()
                return
            await asyncio.sleep(_RETRY)
