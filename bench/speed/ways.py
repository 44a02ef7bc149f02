"""Ways for a turn to take: which server, with a sidecar or not, and what the client says."""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from bench.child import COMMAND, Child, running
from bench.speed.turns import Client, Http, Socket

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_LOOPBACK = "127.0.0.1:0"
_ENDLESS = "1000000"
_SERVER = ("--listen", _LOOPBACK, "--admin", _LOOPBACK, "--tool-turns", _ENDLESS, "--log-level", "warning")
_SIDECAR = ("--listen", _LOOPBACK, "--admin", _LOOPBACK, "--log-level", "warning")


@dataclass(frozen=True, slots=True)
class Way:
    """`caching` is the server's; `says` what the client sends; `sidecar` its options, None for none."""

    name: str
    about: str
    caching: Literal["none", "http", "websocket"]
    says: Literal["history", "id", "frames"] = "history"
    sidecar: tuple[str, ...] | None = None


NONE = Way("HTTP", "plain HTTP with the whole history", "none")
HTTP = Way("HTTP, cached", "the same, with rendered tokens and tools cached by content", "http")
CHAINED = Way("HTTP by id", "HTTP with `previous_response_id`", "http", "id")
SOCKET = Way("WebSocket", "a client that sends deltas over a WebSocket itself", "websocket", "frames")
SIDECAR = Way(
    "sidecar", "the client of plain HTTP, with the sidecar beside it", "websocket", sidecar=("--append", "off")
)
APPEND = Way(
    "sidecar, append",
    "the same over `append`, where one response goes on",
    "websocket",
    sidecar=("--append", "auto"),
)
GENERATIONS = (NONE, HTTP, SOCKET, APPEND)
"""The server's ways to treat what it has seen before."""


@dataclass(frozen=True, slots=True)
class Running:
    """A way that can be taken."""

    way: Way
    server: Child
    sidecar: Child | None
    base: str

    def client(self) -> Client:
        """A new client."""
        if self.way.says == "frames":
            return Socket(self.base)
        return Http(self.base, chained=self.way.says == "id")


@asynccontextmanager
async def opened(way: Way, *, pace: float = 0.0) -> AsyncIterator[Running]:
    """Its processes on loopback. `pace` is the engine's, in tokens per second; 0 is as fast as it can."""
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(running(server_command(way, pace), {"upstream", "upstream-admin"}))
        base, sidecar = f"{server.urls['upstream']}/v1", None
        if way.sidecar is not None:
            sidecar = await stack.enter_async_context(running(sidecar_command(way, base), {"proxy", "admin"}))
            base = f"{sidecar.urls['proxy']}/v1"
        yield Running(way, server, sidecar, base)


def server_command(way: Way, pace: float) -> list[str]:
    """How its server is started."""
    return [*COMMAND, "upstream", *_SERVER, "--caching", way.caching, "--tokens-per-second", f"{pace:g}"]


def sidecar_command(way: Way, upstream: str) -> list[str]:
    """How its sidecar is started before this base URL."""
    return [*COMMAND, "proxy", *_SIDECAR, "--upstream", upstream, *(way.sidecar or ())]
