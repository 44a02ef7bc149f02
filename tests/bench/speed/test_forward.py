import asyncio
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bench.child import running
from bench.speed import certificate
from bench.speed.counts import Carried, Counts
from bench.speed.forward import Forward
from bench.speed.shaping import Direction

_Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def _served(handler: _Handler) -> AsyncIterator[tuple[str, int]]:
    """Address of a server, all connections of which have ended when it has."""
    tasks = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        await handler(reader, writer)
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(handle, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[:2]
    await asyncio.gather(*tasks)


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while piece := await reader.read(1 << 16):
        writer.write(piece)


async def _exchange(address: tuple[str, int], data: bytes) -> bytes:
    reader, writer = await asyncio.open_connection(*address)
    writer.write(data)
    try:
        return await reader.readexactly(len(data))
    finally:
        writer.close()
        await writer.wait_closed()


@pytest.mark.parametrize("delay", [0.0, 0.03])
async def test_what_goes_through_is_the_same_later_and_counted(tmp_path: Path, delay: float) -> None:
    counts = Counts(tmp_path / "counts", create=True)
    up, down = Direction(delay, 0, 0), Direction(delay, 0, 0)
    data = bytes(range(256)) * 2000
    async with _served(_echo) as (_, port), _served(Forward(port, up, down, counts).carry) as address:
        began = time.monotonic()
        assert await _exchange(address, data) == data
        assert time.monotonic() - began >= 2 * delay
    assert counts.read() == Carried(len(data), len(data))
    counts.close()


async def test_a_server_that_is_not_there_ends_the_connection() -> None:
    forward = Forward(9, Direction(0, 0, 0), Direction(0, 0, 0))
    async with _served(forward.carry) as address:
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await _exchange(address, b"x")


async def test_as_a_process_it_ends_tls(tmp_path: Path) -> None:
    trusted = certificate.for_client(certificate.make(tmp_path, ["127.0.0.1"]))
    async with _served(_echo) as (_, port):
        argv = [sys.executable, "-m", "bench.speed.forward", "--to", str(port), "--certificate", str(tmp_path)]
        async with running(argv, {"tls"}) as child:
            where = child.urls["tls"].removeprefix("https://").split(":")
            reader, writer = await asyncio.open_connection(where[0], int(where[1]), ssl=trusted)
            writer.write(b"hello")
            assert await reader.readexactly(5) == b"hello"
            writer.close()
            await writer.wait_closed()
