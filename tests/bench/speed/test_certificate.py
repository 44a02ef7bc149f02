import asyncio
import ssl
import stat
from pathlib import Path

import pytest

from bench.speed import certificate


async def _say_hello(trusted: ssl.SSLContext, folder: Path) -> bytes:
    async def hello(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(hello, "127.0.0.1", 0, ssl=certificate.for_server(folder)) as server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname(), ssl=trusted)
        try:
            return await reader.read()
        finally:
            writer.close()


async def test_a_client_that_trusts_the_file_trusts_the_server(tmp_path: Path) -> None:
    trusted = certificate.make(tmp_path, ["127.0.0.1"])
    assert await _say_hello(certificate.for_client(trusted), tmp_path) == b"hello"


async def test_no_other_client_and_no_other_address_does(tmp_path: Path) -> None:
    trusted = certificate.make(tmp_path, ["127.0.0.2"])
    for context in (ssl.create_default_context(), certificate.for_client(trusted)):
        with pytest.raises(ssl.SSLCertVerificationError):
            await _say_hello(context, tmp_path)


def test_nobody_else_may_read_the_key(tmp_path: Path) -> None:
    certificate.make(tmp_path, ["127.0.0.1"])
    assert stat.S_IMODE((tmp_path / "key.pem").stat().st_mode) == 0o600
