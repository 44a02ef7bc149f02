"""The places of the headline: agents and sidecars on one side of a network, servers behind TLS on the other."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

from bench.child import Child, cpu_of, ended, running
from bench.speed import certificate, tun
from bench.speed.agent import Job, Loop
from bench.speed.counts import Carried, Counts
from bench.speed.turns import TurnFailed
from bench.speed.ways import server_command, sidecar_command

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from bench.speed.ways import Way

CONGESTION = "cubic"
_LOOPBACK = "127.0.0.1"
_LOOP_LIMIT = 900.0


@dataclass(frozen=True, slots=True)
class Network:
    """What lies between the two sides."""

    round_trip: float
    """Seconds."""
    rate: float
    """Bits a second each way; 0 is without limit."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One loop, what the network carried for it, and processor seconds of the others."""

    loop: Loop
    carried: Carried
    server: float
    sidecar: float


@dataclass(frozen=True, slots=True)
class Place:
    """A way over the network that can be taken."""

    way: Way
    base: str
    server: Child
    sidecar: Child | None
    counts: Counts
    near: tuple[str, ...]
    trusted: Path

    async def loop(self, calls: int, idle: float, seed: int) -> Outcome:
        """An agent's loop. Raises `TurnFailed`."""
        job = Job(self.base, self.way.says, calls, idle, seed, str(self.trusted))
        carried, server, sidecar = self.counts.read(), self.server.cpu(), cpu_of(self.sidecar)
        loop = await _agent(self.near, job)
        return Outcome(
            loop, self.counts.read().since(carried), self.server.cpu() - server, cpu_of(self.sidecar) - sidecar
        )


@asynccontextmanager
async def opened(ways: tuple[Way, ...], network: Network, pace: float) -> AsyncIterator[list[Place]]:
    """Everything for these ways. `pace` is the engine's. Raises `StartFailed`."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="deltawire-bench-")))
        certificate.make(folder, (tun.FAR, _LOOPBACK))
        link = await stack.enter_async_context(_link(folder, network)) if tun.available() else None
        yield [await _place(stack, way, link, folder, network=network, pace=pace) for way in ways]


@dataclass(frozen=True, slots=True)
class _Link:
    near: tuple[str, ...]
    far: tuple[str, ...]
    counts: Counts


@asynccontextmanager
async def _link(folder: Path, network: Network) -> AsyncIterator[_Link]:
    counts = Counts(folder / "link", create=True)
    argv = [sys.executable, "-m", "bench.speed.tun", "--delay", str(network.round_trip / 2)]
    argv += ["--rate", str(network.rate), "--congestion", CONGESTION, "--counts", str(folder / "link")]
    async with running(argv, {"link"}) as child:
        near, far = tun.namespaces(child.pid)
        yield _Link(tuple(tun.inside(near)), tuple(tun.inside(far)), counts)
    counts.close()


async def _place(
    stack: AsyncExitStack, way: Way, link: _Link | None, folder: Path, *, network: Network, pace: float
) -> Place:
    near, far = (link.near, link.far) if link is not None else ((), ())
    server = await stack.enter_async_context(
        running([*far, *server_command(way, pace)], {"upstream", "upstream-admin"})
    )
    port = urlsplit(server.urls["upstream"]).port
    argv = [*far, sys.executable, "-m", "bench.speed.forward", "--to", str(port), "--certificate", str(folder)]
    if link is not None:
        counts = link.counts
        argv += ["--listen", tun.FAR]
    else:
        path = folder / f"way-{port}"
        counts = Counts(path, create=True)
        stack.callback(counts.close)
        argv += ["--delay", str(network.round_trip / 2), "--rate", str(network.rate), "--counts", str(path)]
    tls = await stack.enter_async_context(running(argv, {"tls"}))
    base, sidecar, trusted = f"{tls.urls['tls']}/v1", None, folder / certificate.CERTIFICATE
    if way.sidecar is not None:
        environment = {"SSL_CERT_FILE": str(trusted)}
        command = [*near, *sidecar_command(way, base)]
        sidecar = await stack.enter_async_context(running(command, {"proxy", "admin"}, environment))
        base = f"{sidecar.urls['proxy']}/v1"
    return Place(way, base, server, sidecar, counts, near, trusted)


async def _agent(near: tuple[str, ...], job: Job) -> Loop:
    argv = [*near, sys.executable, "-m", "bench.speed.agent", msgspec.json.encode(job).decode()]
    process = await asyncio.create_subprocess_exec(
        *argv, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    try:
        async with asyncio.timeout(_LOOP_LIMIT):
            out, err = await process.communicate()
    finally:
        await ended(process)
    if process.returncode:
        raise TurnFailed(f"an agent failed: {err[-500:].decode(errors='replace')}")
    return msgspec.json.decode(out, type=Loop)
