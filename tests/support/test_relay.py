from __future__ import annotations

import pytest
from aiohttp import ClientSession, WSServerHandshakeError, web
from aiohttp.test_utils import TestServer

from tests.support.relay import Relay


async def _echo(request: web.Request) -> web.WebSocketResponse:
    answer = web.WebSocketResponse()
    await answer.prepare(request)
    async for message in answer:
        await answer.send_str(message.data)
    return answer


def _app() -> web.Application:
    app = web.Application()
    app.router.add_get("/v1/echo", _echo)
    return app


async def test_what_follows_the_handshake_is_counted_apart_from_it() -> None:
    async with TestServer(_app()) as server:
        with Relay(str(server.make_url("/v1")), compression=False) as relay:
            async with ClientSession() as session, session.ws_connect(f"{relay.url}/echo", compress=15) as link:
                await link.send_str("x" * 1000)
                assert (await link.receive_str()) == "x" * 1000
                assert (relay.connections, relay.upgrades) == (1, 1)
                assert relay.body_bytes == 1000 + 8  # two bytes of header, two of length, four of mask
                assert relay.bytes == relay.head_bytes + relay.body_bytes


async def test_compression_is_negotiated_only_when_it_is_let_through() -> None:
    async with TestServer(_app()) as server:
        for compression in (True, False):
            with Relay(str(server.make_url("/v1")), compression=compression) as relay:
                async with ClientSession() as session, session.ws_connect(f"{relay.url}/echo", compress=15) as link:
                    assert bool(link.compress) is compression
                    await link.send_str("x" * 1000)
                    assert (await link.receive_str()) == "x" * 1000
                    assert (relay.body_bytes < 100) is compression


async def test_a_relay_without_websocket_refuses_the_handshake_and_passes_everything_else() -> None:
    async with TestServer(_app()) as server:
        with Relay(str(server.make_url("/v1")), websocket=False) as relay:
            async with ClientSession() as session:
                with pytest.raises(WSServerHandshakeError, match="404"):
                    await session.ws_connect(f"{relay.url}/echo")
                async with session.post(f"{relay.url}/echo") as answer:
                    assert answer.status == 405
