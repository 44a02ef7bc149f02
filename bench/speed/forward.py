"""What ends TLS in front of a server, and where there is no link of its own, delays what it carries.

As a delay it gives the round trip, but neither the cost of a handshake nor slow start: such figures are no headline.
"""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

from bench.speed import certificate
from bench.speed.counts import Counts
from bench.speed.serving import arguments, serve_streams
from bench.speed.shaping import Direction

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter

_PIECE = 64 * 1024
_ROOM = 1 << 40


class Forward:
    """Carries connections to a port of loopback."""

    def __init__(self, port: int, up: Direction, down: Direction, counts: Counts | None = None) -> None:
        self._port, self._up, self._down, self._counts = port, up, down, counts

    async def carry(self, reader: StreamReader, writer: StreamWriter) -> None:
        """One connection, both ways, until either side ends it."""
        with contextlib.closing(writer), contextlib.suppress(OSError):
            there_reader, there_writer = await asyncio.open_connection("127.0.0.1", self._port)
            try:
                async with asyncio.TaskGroup() as group:
                    pumps = [
                        group.create_task(self._pump(reader, there_writer, self._up)),
                        group.create_task(self._pump(there_reader, writer, self._down)),
                    ]
                    await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
                    for pump in pumps:
                        pump.cancel()
            finally:
                there_writer.close()
                await there_writer.wait_closed()

    async def _pump(self, reader: StreamReader, writer: StreamWriter, direction: Direction) -> None:
        """Everything that comes, each piece when it is due."""
        loop = asyncio.get_running_loop()
        pieces: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

        async def release() -> None:
            while (waiting := await pieces.get())[1]:
                due, piece = waiting
                if (early := due - loop.time()) > 0:
                    await asyncio.sleep(early)
                writer.write(piece)
                await writer.drain()

        releasing = asyncio.ensure_future(release())
        try:
            piece = b"-"
            while piece:
                piece = await reader.read(_PIECE)
                due = direction.due(loop.time(), len(piece))
                pieces.put_nowait((due if due is not None else loop.time(), piece))
                if self._counts is not None:
                    self._counts.tell(self._up.bytes, self._down.bytes)
            await releasing
        finally:
            releasing.cancel()


def main() -> None:
    """Serve."""
    parser = arguments("Ends TLS, and may delay.")
    parser.add_argument("--listen", default="127.0.0.1", help="an address")
    parser.add_argument("--to", type=int, required=True, help="a port of loopback")
    parser.add_argument("--certificate", type=Path, required=True, help="a folder")
    parser.add_argument("--delay", type=float, default=0.0, help="one way, in seconds")
    parser.add_argument("--rate", type=float, default=0.0, help="bits a second each way, 0 without limit")
    parser.add_argument("--counts", type=Path)
    given = parser.parse_args()
    up, down = (Direction(given.delay, given.rate, _ROOM) for _ in range(2))
    counts = Counts(given.counts) if given.counts is not None else None
    forward = Forward(given.to, up, down, counts)
    serve_streams("tls", given.listen, forward.carry, certificate.for_server(given.certificate))


if __name__ == "__main__":
    main()
