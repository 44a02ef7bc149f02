"""Bytes to a server as no library would send them."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from urllib.parse import urlsplit

NOT_HTTP = {
    "no request line": b"nonsense\r\n\r\n",
    "another protocol": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "no header": b"POST /v1/responses HTTP/1.1\r\nhost: a\r\nsecret-9d2\r\n\r\n",
    "a bad header": b"POST /v1/responses HTTP/1.1\r\nhost: a\r\nauthorization : Bearer secret-9d2\r\n\r\n",
    "two lengths": b"POST /v1/responses HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n{}",
    "a header without end": b"POST /v1/responses HTTP/1.1\r\nauthorization: Bearer secret-9d2" + b"x" * 200_000,
}


async def answered(url: str, data: bytes) -> tuple[int, dict[str, str], Any]:
    """Status, headers with names in lower case, and JSON of the answer, after which the server closes."""
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    try:
        writer.write(data)
        raw = await asyncio.wait_for(reader.read(), 10)
    finally:
        writer.close()
    head, _, body = raw.partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    return int(status.split()[1]), headers, json.loads(body)
