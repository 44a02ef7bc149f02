from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from tests.upstream.helpers import WEATHER, answer_of, check_events, outputs, post, stream, turn, without_ids
from upstream.app import Running, start
from upstream.settings import UpstreamSettings
from wire.extensions import envelope_digest

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

Socket = aiohttp.ClientWebSocketResponse[bool]


@pytest.fixture
async def socket(server: Running, http: aiohttp.ClientSession) -> AsyncIterator[Socket]:
    async with http.ws_connect(f"{server.url}/v1/responses", max_msg_size=0) as opened:
        yield opened


async def _error(socket: Socket) -> dict[str, Any]:
    (frame,) = await answer_of(socket)
    assert frame["type"] == "error"
    assert isinstance(frame["status"], int)
    assert {"message", "type", "param", "code"} <= set(frame["error"])
    return frame


async def _refused(socket: Socket, **body: Any) -> dict[str, Any]:
    await socket.send_str(json.dumps({"type": "response.create"} | body))
    return await _error(socket)


async def _done(socket: Socket, **body: Any) -> dict[str, Any]:
    last = (await turn(socket, **body))[-1]
    assert last["type"] == "response.completed", last
    response: dict[str, Any] = last["response"]
    return response


async def test_a_create_is_answered_with_the_same_events_as_a_stream(
    server: Running, http: aiohttp.ClientSession, socket: Socket
) -> None:
    body = {"model": "gpt-5.5", "input": "hi", "tools": [WEATHER], "reasoning": {"summary": "auto"}}
    over_socket = await turn(socket, **body)
    over_http = await stream(http, server.url, **body)

    check_events(over_socket)
    assert without_ids(over_socket) == without_ids(over_http)


async def test_members_that_say_nothing_on_a_socket_are_ignored(socket: Socket) -> None:
    response = await _done(
        socket, model="m", input="hi", stream=True, background=False, stream_options={"include_obfuscation": False},
        client_metadata={"a": "b"},
    )  # fmt: skip

    assert response["status"] == "completed"


async def test_creates_wait_for_each_other(socket: Socket) -> None:
    for text in ("one", "two"):
        await socket.send_str(json.dumps({"type": "response.create", "model": "m", "input": text, "store": False}))
    first, second = await answer_of(socket), await answer_of(socket)

    assert first[0]["type"] == second[0]["type"] == "response.created"
    assert {event["response"]["id"] for event in (first[0], first[-1])} == {first[0]["response"]["id"]}
    assert first[0]["response"]["id"] != second[0]["response"]["id"]


@pytest.mark.parametrize("store", [True, False])
async def test_the_latest_response_is_continued_by_its_id(socket: Socket, *, store: bool) -> None:
    first = await _done(socket, model="m", input="hi", tools=[WEATHER], store=store)
    second = await _done(
        socket, model="m", input=outputs(first), tools=[WEATHER], store=store, previous_response_id=first["id"]
    )

    assert second["previous_response_id"] == first["id"]
    assert second["usage"]["input_tokens_details"]["cached_tokens"] > 0


async def test_an_older_response_that_is_not_stored_is_gone(socket: Socket) -> None:
    first = await _done(socket, model="m", input="hi", store=False)
    await _done(socket, model="m", input="other", store=False)

    assert (await _refused(socket, model="m", input="x", store=False, previous_response_id=first["id"])) == {
        "type": "error",
        "status": 400,
        "error": {
            "type": "invalid_request_error",
            "code": "previous_response_not_found",
            "message": f"Previous response with id '{first['id']}' not found.",
            "param": "previous_response_id",
        },
    }
    assert (await _done(socket, model="m", input="fresh", store=False))["status"] == "completed"


async def test_another_connection_continues_stored_responses_only(
    server: Running, http: aiohttp.ClientSession, socket: Socket
) -> None:
    stored = await _done(socket, model="m", input="hi")
    local = await _done(socket, model="m", input="hi", store=False)
    async with http.ws_connect(f"{server.url}/v1/responses") as other:
        assert (await _done(other, model="m", input="x", previous_response_id=stored["id"]))["status"] == "completed"
        frame = await _refused(other, model="m", input="x", previous_response_id=local["id"])
        assert frame["error"]["code"] == "previous_response_not_found"
    status, _ = await post(http, server.url, model="m", input="x", previous_response_id=local["id"])
    assert status == 400


async def test_another_key_continues_nothing(server: Running, http: aiohttp.ClientSession, socket: Socket) -> None:
    stored = await _done(socket, model="m", input="hi")
    async with http.ws_connect(f"{server.url}/v1/responses", headers={"authorization": "Bearer other"}) as other:
        frame = await _refused(other, model="m", input="x", previous_response_id=stored["id"])
        assert frame["error"]["code"] == "previous_response_not_found"


async def test_a_refused_continuation_evicts_its_parent(socket: Socket) -> None:
    first = await _done(socket, model="m", input="hi", store=False)
    orphan = [{"type": "function_call_output", "call_id": "call_none", "output": "x"}]
    frame = await _refused(socket, model="m", input=orphan, store=False, previous_response_id=first["id"])
    assert frame["error"]["message"] == "No tool call found for function call output with call_id call_none."
    frame = await _refused(socket, model="m", input="x", store=False, previous_response_id=first["id"])
    assert frame["error"]["code"] == "previous_response_not_found"


async def test_a_continuation_that_is_cut_short_evicts_its_parent(socket: Socket) -> None:
    first = await _done(socket, model="m", input="hi", store=False)
    more: dict[str, Any] = {"model": "m", "input": "x", "store": False, "previous_response_id": first["id"]}
    cut = await turn(socket, **more, max_output_tokens=1)
    assert cut[-1]["type"] == "response.incomplete"
    frame = await _refused(socket, **more)
    assert frame["error"]["code"] == "previous_response_not_found"


async def test_a_warm_up_prepares_a_chain(socket: Socket) -> None:
    warm = await turn(socket, model="m", input=[], instructions="be", store=False, generate=False)
    assert [event["type"] for event in warm] == ["response.created", "response.in_progress", "response.completed"]
    check_events(warm)
    assert warm[-1]["response"]["output"] == []
    made = await _done(socket, model="m", input="hi", store=False, previous_response_id=warm[-1]["response"]["id"])
    assert made["output"][0]["type"] == "message"


@pytest.mark.parametrize(
    ("frame", "param"),
    [
        ("not json", None),
        ("[]", None),
        ("{}", "type"),
        ('{"type":"response.steer"}', "type"),
        ('{"type":"response.create"}', "model"),
        ('{"type":"response.create","model":"m","input":3}', "input"),
        ('{"type":"response.create","model":"m","input":"x","background":true}', "background"),
        ('{"type":"response.create","model":"m","input":"x","stream_id":"main"}', "stream_id"),
        ('{"type":"response.create","model":"m","input":"x","previous_response_id":3}', "previous_response_id"),
    ],
)
async def test_a_bad_frame_is_answered_and_survived(socket: Socket, frame: str, param: str | None) -> None:
    await socket.send_str(frame)

    assert (await _error(socket))["error"]["param"] == param
    assert (await _done(socket, model="m", input="hi"))["status"] == "completed"


async def test_a_binary_frame_is_answered_and_survived(socket: Socket) -> None:
    await socket.send_bytes(b'{"type":"response.create"}')

    assert (await _error(socket))["status"] == 400
    assert (await _done(socket, model="m", input="hi"))["status"] == "completed"


async def test_a_frame_beyond_the_limit_ends_the_connection_with_1009(http: aiohttp.ClientSession) -> None:
    server = await start(UpstreamSettings(port=0, max_frame=1000))
    try:
        async with http.ws_connect(f"{server.url}/v1/responses") as socket:
            await socket.send_str("x" * 2000)
            message = await socket.receive(timeout=10)
            assert (message.type, message.data) == (aiohttp.WSMsgType.CLOSE, 1009)
    finally:
        await server.close()


async def test_one_frame_more_than_may_wait_is_refused(http: aiohttp.ClientSession) -> None:
    server = await start(UpstreamSettings(port=0, queue_frames=1, tokens_per_second=0.01))
    try:
        async with http.ws_connect(f"{server.url}/v1/responses") as socket:
            await socket.send_str('{"type":"response.create","model":"m","input":"1"}')
            assert (await socket.receive_json(timeout=10))["type"] == "response.created"
            for _ in range(2):
                await socket.send_str('{"type":"response.create","model":"m","input":"2"}')
            seen = [await socket.receive_json(timeout=10)]
            while seen[-1]["type"] != "error":
                seen.append(await socket.receive_json(timeout=10))
            assert (seen[-1]["status"], seen[-1]["error"]["code"]) == (429, "too_many_requests")
    finally:
        await server.close()


async def test_a_connection_that_is_old_ends_its_turn_says_so_and_closes(http: aiohttp.ClientSession) -> None:
    server = await start(UpstreamSettings(port=0, tokens_per_second=200))
    try:
        async with http.ws_connect(f"{server.url}/v1/responses") as socket:
            await socket.send_str('{"type":"response.create","model":"m","input":"1"}')
            assert (await socket.receive_json(timeout=10))["type"] == "response.created"
            next(iter(server._ws.connections))._expire()
            assert (await answer_of(socket))[-1]["type"] == "response.completed"
            frame = await _error(socket)
            assert frame["error"]["code"] == "websocket_connection_limit_reached"
            assert "(60 minutes)" in frame["error"]["message"]
            assert (await socket.receive(timeout=10)).type is aiohttp.WSMsgType.CLOSE
    finally:
        await server.close()


async def test_the_age_is_counted_from_the_handshake(http: aiohttp.ClientSession) -> None:
    server = await start(UpstreamSettings(port=0, connection_max_age=0.01))
    try:
        async with http.ws_connect(f"{server.url}/v1/responses") as socket:
            assert (await _error(socket))["error"]["code"] == "websocket_connection_limit_reached"
    finally:
        await server.close()


async def test_a_client_that_leaves_ends_the_generation(http: aiohttp.ClientSession) -> None:
    server = await start(UpstreamSettings(port=0, tokens_per_second=0.01))
    try:
        async with http.ws_connect(f"{server.url}/v1/responses") as socket:
            await socket.send_str('{"type":"response.create","model":"m","input":"1"}')
            assert (await socket.receive_json(timeout=10))["type"] == "response.created"
            assert len([task for task in asyncio.all_tasks() if task.get_name() == "upstream-lane"]) == 1
        await asyncio.wait_for(server._http.idle.wait(), 10)
        assert not [task for task in asyncio.all_tasks() if task.get_name() == "upstream-lane"]
        assert not server._ws.connections
    finally:
        await server.close()


async def test_digests_stand_for_members_that_the_connection_has_carried(socket: Socket) -> None:
    tools = [WEATHER | {"description": "d" * 300}]
    raw = json.dumps(tools, separators=(",", ":"))
    digest = envelope_digest(raw.encode())
    await socket.send_str(f'{{"type":"response.create","model":"m","input":"hi","store":false,"tools":{raw}}}')
    first = (await answer_of(socket))[-1]["response"]
    second = await _done(
        socket, model="m", input=outputs(first), store=False, previous_response_id=first["id"],
        deltawire_envelope={"tools": digest},
    )  # fmt: skip

    assert second["tools"] == first["tools"]
    assert second["output"][0]["type"] == "function_call"


async def test_an_unknown_digest_starts_nothing_and_keeps_the_parent(socket: Socket) -> None:
    first = await _done(socket, model="m", input="hi", store=False)
    frame = await _refused(
        socket, model="m", input="x", store=False, previous_response_id=first["id"],
        deltawire_envelope={"tools": "0" * 64},
    )  # fmt: skip

    assert (frame["status"], frame["error"]["code"], frame["error"]["param"]) == (
        409,
        "deltawire_envelope_unknown",
        "tools",
    )
    assert (await _done(socket, model="m", input="x", store=False, previous_response_id=first["id"]))["status"]


async def test_the_handshake_offers_the_envelope(socket: Socket) -> None:
    assert socket._response.headers["x-deltawire-features"] == "envelope"
    assert socket._response.headers["x-request-id"].startswith("req_")


async def test_a_plain_server_offers_nothing_and_refuses_digests(http: aiohttp.ClientSession) -> None:
    server = await start(UpstreamSettings(port=0, features=()))
    try:
        async with http.ws_connect(f"{server.url}/v1/responses") as socket:
            assert "x-deltawire-features" not in socket._response.headers
            frame = await _refused(socket, model="m", input="x", deltawire_envelope={"tools": "0" * 64})
            assert (frame["status"], frame["error"]["code"]) == (400, "unknown_parameter")
    finally:
        await server.close()


async def test_compressed_messages_are_understood_both_ways(server: Running, http: aiohttp.ClientSession) -> None:
    async with http.ws_connect(f"{server.url}/responses", compress=15) as socket:
        assert socket.compress == 15
        assert (await _done(socket, model="m", input="x" * 5000))["status"] == "completed"


async def test_the_server_pings(http: aiohttp.ClientSession) -> None:
    server = await start(UpstreamSettings(port=0, heartbeat=0.05))
    try:
        async with http.ws_connect(f"{server.url}/v1/responses", autoping=False) as socket:
            assert (await socket.receive(timeout=10)).type is aiohttp.WSMsgType.PING
    finally:
        await server.close()
