import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from bench.wire_client import exchange


@asynccontextmanager
async def _server(*pieces: bytes) -> AsyncIterator[tuple[str, list[bytes]]]:
    """Reads one request up to its empty line and the two bytes after it, answers, hangs up."""
    got: list[bytes] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        got.append(await reader.readuntil(b"\r\n\r\n") + await reader.readexactly(2))
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", got


REQUEST = b"POST /x HTTP/1.1\r\nODD-case:  value\r\n\r\nhi"


async def test_the_bytes_go_out_as_they_are() -> None:
    async with _server(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n") as (origin, got):
        answer = await exchange(origin, REQUEST)
    assert got == [REQUEST]
    assert (answer.status, answer.headers, answer.body, answer.complete) == (200, {"content-length": "0"}, b"", True)


async def test_a_body_of_known_length_is_read() -> None:
    async with _server(b"HTTP/1.1 404 No\r\nX-A: b\r\nContent-Length: 4\r\n\r\nte", b"xt") as (origin, _):
        answer = await exchange(origin, REQUEST)
    assert (answer.status, answer.headers["x-a"], answer.body) == (404, "b", b"text")


async def test_chunks_are_put_together() -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    async with _server(head, b"2;x=y\r\nte\r\n", b"2\r\nxt\r\n0\r\n\r\n") as (origin, _):
        answer = await exchange(origin, REQUEST)
    assert (answer.body, answer.complete) == (b"text", True)


@pytest.mark.parametrize(
    ("head", "body", "got"),
    [
        (b"Transfer-Encoding: chunked", b"2\r\nte\r\n", b"te"),
        (b"Transfer-Encoding: chunked", b"4\r\nte", b"te"),
        (b"Content-Length: 4", b"te", b"te"),
    ],
)
async def test_a_body_that_breaks_off_is_said_to(head: bytes, body: bytes, got: bytes) -> None:
    async with _server(b"HTTP/1.1 200 OK\r\n" + head + b"\r\n\r\n" + body) as (origin, _):
        answer = await exchange(origin, REQUEST)
    assert (answer.body, answer.complete) == (got, False)


async def test_a_body_of_unknown_length_ends_with_the_connection() -> None:
    async with _server(b"HTTP/1.1 200 OK\r\n\r\ntext") as (origin, _):
        answer = await exchange(origin, REQUEST)
    assert (answer.body, answer.complete) == (b"text", True)


async def test_interim_answers_are_passed_over() -> None:
    async with _server(b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 204 No\r\n\r\n") as (origin, _):
        assert (await exchange(origin, REQUEST)).status == 204


async def test_no_answer_at_all_is_an_error() -> None:
    async with _server() as (origin, _):
        with pytest.raises(ConnectionResetError):
            await exchange(origin, REQUEST)
