import asyncio
import json

import aiohttp
import pytest
from aiohttp import web

from tests.support.responses import create, read_turn, user, ws_turn
from upstream.scripted import Accept, Play, ScriptedUpstream, message
from upstream.scripted.faults import Hold, Silence
from wire.errors import PREVIOUS_NOT_FOUND


async def test_connections_are_numbered_and_keep_their_turns_apart(http: aiohttp.ClientSession) -> None:
    async with ScriptedUpstream() as up:
        for _ in range(2):
            async with http.ws_connect(f"{up.url}/responses") as socket:
                await ws_turn(socket, create([user("a")], store=False))
    assert [turn.connection for turn in up.turns] == [1, 2]


async def test_a_second_turn_at_a_time_waits_and_is_a_violation(http: aiohttp.ClientSession) -> None:
    gate = asyncio.Event()
    plays = [Play(items=[message("one")], faults=[Hold(gate, after=1)]), Play(items=[message("two")])]
    async with ScriptedUpstream(plays) as up, http.ws_connect(f"{up.url}/responses") as socket:
        for text in "ab":
            await socket.send_str(json.dumps(create([user(text)])))
        await up.until(lambda: bool(up.violations))
        gate.set()
        answers = [(await read_turn(socket))[-1]["response"]["output"][0] for _ in range(2)]
    assert [item["content"][0]["text"] for item in answers] == ["one", "two"]
    assert up.violations == ["turn 2: created while another one runs on connection 1"]


async def test_lanes_run_side_by_side_and_name_their_events(http: aiohttp.ClientSession) -> None:
    gate = asyncio.Event()
    plays = [Play(items=[message("slow")], faults=[Hold(gate)]), Play(items=[message("fast")])]
    async with ScriptedUpstream(plays, lanes=True) as up, http.ws_connect(f"{up.url}/responses") as socket:
        for lane in ("one", "two"):
            await socket.send_str(json.dumps(create([user("a")], stream_id=lane)))
        first = await read_turn(socket)
        gate.set()
        second = await read_turn(socket)
    assert {event["stream_id"] for event in first} == {"two"}
    assert {event["stream_id"] for event in second} == {"one"}
    assert up.violations == []


async def test_a_binary_frame_is_a_violation(http: aiohttp.ClientSession) -> None:
    async with ScriptedUpstream() as up, http.ws_connect(f"{up.url}/responses") as socket:
        await socket.send_bytes(b"{}")
        await up.until(lambda: bool(up.violations))
    assert up.violations == ["connection 1: a frame that is no text"]


async def test_an_idle_connection_can_speak_close_and_break(http: aiohttp.ClientSession) -> None:
    async with ScriptedUpstream() as up:
        socket = await http.ws_connect(f"{up.url}/responses")
        await up.connections[0].send(b'{"type":"keepalive"}')
        assert await socket.receive_json() == {"type": "keepalive"}
        closing = asyncio.ensure_future(up.connections[0].close(1001))
        assert (await socket.receive()).data == 1001
        await closing
        socket = await http.ws_connect(f"{up.url}/responses")
        up.connections[1].reset()
        assert (await socket.receive()).type in {aiohttp.WSMsgType.ERROR, aiohttp.WSMsgType.CLOSED}
        await socket.close()


async def test_pings_are_counted_and_answered_only_when_told_so(http: aiohttp.ClientSession) -> None:
    async with ScriptedUpstream(upgrades=[Accept(), Accept(answer_pings=False)]) as up:
        for expected in (True, False):
            socket = await http.ws_connect(f"{up.url}/responses", autoping=False)
            await socket.ping(b"there?")
            await socket.send_str(json.dumps(create([user("a")])))
            first = await socket.receive()
            assert (first.type is aiohttp.WSMsgType.PONG) == expected
            await socket.close()
    assert [connection.pings for connection in up.connections] == [1, 1]


async def test_a_client_that_leaves_ends_a_silent_turn(http: aiohttp.ClientSession) -> None:
    async with ScriptedUpstream([Play(faults=[Silence()])]) as up:
        async with http.ws_connect(f"{up.url}/responses") as socket:
            await socket.send_str(json.dumps(create([user("a")])))
            await up.until(lambda: bool(up.turns))
        await up.connections[0].closed.wait()
        assert up.turns[0].outcome == "broken"
        assert up.connections[0].close_code == 1000


async def test_an_unknown_parent_is_an_error_frame_and_the_connection_goes_on(http: aiohttp.ClientSession) -> None:
    async with ScriptedUpstream() as up, http.ws_connect(f"{up.url}/responses") as socket:
        (error,) = await ws_turn(socket, create([user("a")], store=False, previous_response_id="resp_none"))
        assert error == {
            "type": "error",
            "status": 400,
            "error": {
                "type": "invalid_request_error",
                "code": PREVIOUS_NOT_FOUND,
                "message": "Previous response with id 'resp_none' not found.",
                "param": "previous_response_id",
            },
        }
        assert (await ws_turn(socket, create([user("a")], store=False)))[-1]["type"] == "response.completed"
    assert [turn.outcome for turn in up.turns] == ["refused", "completed"]


async def test_compression_is_agreed_on_only_when_wanted(http: aiohttp.ClientSession) -> None:
    async with ScriptedUpstream(upgrades=[Accept(), Accept(deflate=True)]) as up:
        for expected in (0, 15):
            async with http.ws_connect(f"{up.url}/responses", compress=15) as socket:
                assert socket.compress == expected
                await ws_turn(socket, create([user("a" * 1000)]))
    assert up.turns[0].size == up.turns[1].size > 1000


async def test_a_client_that_leaves_within_the_handshake_leaves_a_closed_connection(
    http: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def gone(*_: object) -> None:
        raise ConnectionResetError

    monkeypatch.setattr(web.WebSocketResponse, "prepare", gone)
    async with ScriptedUpstream() as up:
        with pytest.raises(aiohttp.WSServerHandshakeError):
            await http.ws_connect(f"{up.url}/responses")
        assert up.connections[0].closed.is_set()
    assert caplog.records == []
