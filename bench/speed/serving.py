"""What the measurements' own servers share: how they are started, say where they listen, and end."""

from __future__ import annotations

import argparse
import asyncio
import signal
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING

from aiohttp import web

if TYPE_CHECKING:
    import ssl

Carry = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[None, None, None]]
Loop = asyncio.AbstractEventLoop


def loop_factory() -> Callable[[], Loop] | None:
    """The loop that the project's commands use: uvloop's, where it is installed."""
    try:
        import uvloop  # noqa: PLC0415 - an extra: used when it is there
    except ImportError:
        return None
    return uvloop.new_event_loop


def arguments(about: str) -> argparse.ArgumentParser:
    """A parser for one of them."""
    return argparse.ArgumentParser(description=about)


def serve(name: str, make: Callable[[], Awaitable[web.Application]]) -> None:
    """Serve the application on a free port of loopback until SIGTERM or SIGINT."""

    async def run() -> None:
        runner = web.AppRunner(await make(), access_log=None, shutdown_timeout=0.0)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        await _until_told(name, "http", *runner.addresses[0][:2])
        await runner.cleanup()

    _run(run())


def serve_streams(name: str, address: str, carry: Carry, tls: ssl.SSLContext) -> None:
    """Serve connections on a free port of an address until SIGTERM or SIGINT."""

    async def run() -> None:
        server = await asyncio.start_server(carry, address, 0, ssl=tls)
        await _until_told(name, "https", *server.sockets[0].getsockname()[:2])
        server.close()

    _run(run())


def _run(main: Coroutine[None, None, None]) -> None:
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(main)


async def _until_told(name: str, scheme: str, host: str, port: int) -> None:
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    print(f"deltawire {name} listening on {scheme}://{host}:{port}", flush=True)
    await stop.wait()
