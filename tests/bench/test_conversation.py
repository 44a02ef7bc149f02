import aiohttp
import pytest

from bench.conversation import Conversation
from bench.trace import WsUpgrade
from tests.support.responses import create, user
from upstream.scripted import Accept, Play, ScriptedUpstream, message
from upstream.scripted.faults import CloseAfter, RefuseUpgrade
from wire.events import peek

HEADERS = (
    ("Host", "127.0.0.1:8700"),
    ("Upgrade", "websocket"),
    ("Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAAAA=="),
    ("authorization", "Bearer x"),
    ("openai-beta", "responses_websockets=2026-02-06"),
)
DEFLATE = ("Sec-WebSocket-Extensions", "permessage-deflate; client_max_window_bits")
FRAME = str(create([user("a")])).replace("'", '"').encode()


def _origin(up: ScriptedUpstream) -> str:
    return up.url.removesuffix("/v1")


async def test_a_turn_is_said_and_heard_to_its_end() -> None:
    async with ScriptedUpstream() as up:
        conversation = await Conversation.open(_origin(up), WsUpgrade(1, "/v1/responses", HEADERS, "accept"))
        await conversation.send(FRAME)
        frames = await conversation.answer()
        await conversation.close()
    assert up.turns[0].raw == FRAME
    assert (peek(frames[0]).type, peek(frames[-1]).type) == ("response.created", "response.completed")


async def test_recorded_headers_are_sent_but_for_those_of_the_old_connection() -> None:
    async with ScriptedUpstream() as up:
        conversation = await Conversation.open(_origin(up), WsUpgrade(1, "/v1/responses", HEADERS, "accept"))
        await conversation.close()
    headers = up.upgrade_attempts[0]
    assert (headers["authorization"], headers["openai-beta"]) == ("Bearer x", "responses_websockets=2026-02-06")
    assert headers["host"] == _origin(up).removeprefix("http://")
    assert headers["sec-websocket-key"] != HEADERS[2][1]
    assert "sec-websocket-extensions" not in headers


async def test_compression_is_offered_when_the_client_did() -> None:
    async with ScriptedUpstream(upgrades=Accept(deflate=True)) as up:
        upgrade = WsUpgrade(1, "/v1/responses", (*HEADERS, DEFLATE), "accept")
        await (await Conversation.open(_origin(up), upgrade)).close()
    assert up.upgrade_attempts[0]["sec-websocket-extensions"].startswith("permessage-deflate")


async def test_a_connection_that_ends_ends_the_answer() -> None:
    async with ScriptedUpstream([Play(items=[message("a")], faults=[CloseAfter(2, 1011)])]) as up:
        conversation = await Conversation.open(_origin(up), WsUpgrade(1, "/v1/responses", HEADERS, "accept"))
        await conversation.send(FRAME)
        assert len(await conversation.answer()) == 2
        await conversation.close()


async def test_a_refused_handshake_is_an_error() -> None:
    async with ScriptedUpstream(upgrades=RefuseUpgrade(426)) as up:
        with pytest.raises(aiohttp.WSServerHandshakeError):
            await Conversation.open(_origin(up), WsUpgrade(1, "/v1/responses", HEADERS, "accept"))
