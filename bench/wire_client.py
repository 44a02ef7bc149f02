"""An HTTP/1.1 client that sends the bytes it is given and says exactly what came back."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from urllib.parse import urlsplit

_LIMIT = 2**26
_END_OF_HEAD = b"\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back. `complete` is false when the connection ended before the message did."""

    status: int
    headers: dict[str, str]
    body: bytes
    complete: bool = True


async def exchange(origin: str, request: bytes) -> Answer:
    """Send one request on a new connection and read the answer. Raises `OSError` when there is none at all."""
    parts = urlsplit(origin)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port, limit=_LIMIT)
    try:
        writer.write(request)
        await writer.drain()
        return await _read(reader)
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def _read(reader: asyncio.StreamReader) -> Answer:
    while True:
        try:
            head = await reader.readuntil(_END_OF_HEAD)
        except asyncio.IncompleteReadError:
            raise ConnectionResetError("no answer") from None
        first, *lines = head.decode("latin-1").split("\r\n")
        status = int(first.split(" ", 2)[1])
        if status >= 200:  # noqa: PLR2004 - interim answers come before the answer
            break
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}
    body = bytearray()
    try:
        complete = await _body(reader, headers, status, body)
    except (asyncio.IncompleteReadError, OSError) as error:
        if isinstance(error, asyncio.IncompleteReadError):
            body += error.partial
        complete = False
    return Answer(status, headers, bytes(body), complete)


async def _body(reader: asyncio.StreamReader, headers: dict[str, str], status: int, body: bytearray) -> bool:
    if status in {204, 304}:
        return True
    if headers.get("transfer-encoding", "").lower() == "chunked":
        while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
            while size:
                piece = await reader.read(size)
                if not piece:
                    return False
                body += piece
                size -= len(piece)
            await reader.readexactly(2)
        await reader.readuntil(b"\r\n")
        return True
    if "content-length" in headers:
        body += await reader.readexactly(int(headers["content-length"]))
        return True
    body += await reader.read()
    return True
