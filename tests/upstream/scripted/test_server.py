import json
from typing import Any

import aiohttp
import pytest

from tests.support.responses import create, sse_events, tool_output, user, ws_turn
from upstream.scripted import (
    Accept,
    Call,
    Play,
    Reply,
    ScriptedUpstream,
    Turn,
    check_context,
    function_call,
    message,
)
from upstream.scripted.faults import RefuseUpgrade
from wire.extensions import FEATURES_HEADER

HISTORY = [user("a"), function_call("call_1", "run", id="fc_1"), tool_output("call_1")]


async def test_a_post_gets_one_json_body(http: aiohttp.ClientSession) -> None:
    async with (
        ScriptedUpstream([Play(items=[message("hello")])]) as up,
        http.post(f"{up.url}/responses", json={"model": "m", "input": "hi"}) as response,
    ):
        assert response.status == 200
        assert response.headers["x-request-id"] == "req_000001"
        body = await response.json()
    assert body["output"][0]["content"][0]["text"] == "hello"
    assert (up.turns[0].transport, up.turns[0].outcome, up.turns[0].connection) == ("http", "completed", 0)


async def test_a_streaming_post_gets_every_event(http: aiohttp.ClientSession) -> None:
    async with (
        ScriptedUpstream() as up,
        http.post(f"{up.url}/responses", json={"input": "hi", "stream": True}) as response,
    ):
        events = [event async for event in sse_events(response)]
        assert response.content_type == "text/event-stream"
    assert all(kind == data["type"] for kind, data in events)
    assert (events[0][0], events[-1][0]) == ("response.created", "response.completed")


async def test_a_resumed_turn_is_answered_in_few_words(http: aiohttp.ClientSession) -> None:
    async with ScriptedUpstream(append=True, envelope=True) as up, http.ws_connect(f"{up.url}/responses") as socket:
        assert socket._response.headers["x-deltawire-features"] == "envelope, append"
        first = (await ws_turn(socket, create([user("a")], store=False)))[-1]["response"]
        frame = {"type": "response.append", "response_id": first["id"], "input": [user("b")]}
        events = await ws_turn(socket, frame)
        assert [events[0]["type"], events[-1]["type"]] == ["response.resumed", "response.done"]
        assert [event["sequence_number"] for event in events[1:]] == list(range(2, len(events) + 1))
        assert up.turns[1].outcome == "completed"
        assert len(up.turns[1].context) == 3


async def test_three_deltas_are_the_whole_conversation(http: aiohttp.ClientSession) -> None:
    plays = [Play(items=[function_call("call_1", "run")]), Play(items=[message("b")]), Play(items=[message("c")])]
    frames = [[user("a")], [tool_output("call_1")], [user("d")]]
    history: list[Any] = []
    bodies: list[bytes] = []
    async with ScriptedUpstream(plays) as up, http.ws_connect(f"{up.url}/responses") as socket:
        chain: dict[str, Any] = {}
        for items in frames:
            history += items
            bodies.append(json.dumps({"model": "m", "store": False, "input": history}).encode())
            done = (await ws_turn(socket, create(items, store=False, **chain)))[-1]["response"]
            chain = {"previous_response_id": done["id"]}
            history += done["output"]
    assert check_context(up.turns, bodies) == []
    assert [len(turn.context) for turn in up.turns] == [1, 3, 5]
    assert up.violations == []


async def test_a_function_decides_by_what_it_sees(http: aiohttp.ClientSession) -> None:
    async def decide(turn: Turn) -> Play:
        return Play(items=[message(f"{turn.transport} {len(turn.context)}")])

    async with (
        ScriptedUpstream(decide) as up,
        http.post(f"{up.url}/responses", json={"input": HISTORY}) as response,
    ):
        assert "http 3" in await response.text()


async def test_what_the_script_raises_is_raised_at_the_end(http: aiohttp.ClientSession) -> None:
    def decide(turn: Turn) -> Play:
        raise LookupError(turn.number)

    with pytest.raises(LookupError):
        async with ScriptedUpstream(decide) as up, http.post(f"{up.url}/responses", json={"input": "a"}) as response:
            assert response.status == 500


async def test_a_script_that_is_used_up_is_a_violation(http: aiohttp.ClientSession) -> None:
    async with ScriptedUpstream([]) as up, http.post(f"{up.url}/responses", json={"input": "a"}) as response:
        assert response.status == 500
    assert up.violations == ["turn 1: the script has no answer left"]


async def test_a_handshake_can_be_refused_and_accepted_in_turn(http: aiohttp.ClientSession) -> None:
    refusals: list[RefuseUpgrade | Accept] = [
        RefuseUpgrade(503, headers={"retry-after": "1"}),
        RefuseUpgrade(426),
        Accept(),
    ]
    async with ScriptedUpstream(upgrades=refusals) as up:
        for status in (503, 426):
            with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
                await http.ws_connect(f"{up.url}/responses")
            assert caught.value.status == status
        for _ in range(2):
            await (await http.ws_connect(f"{up.url}/responses")).close()
        await up.until(lambda: all(connection.closed.is_set() for connection in up.connections))
    assert (len(up.upgrade_attempts), len(up.connections)) == (4, 2)


async def test_a_handshake_can_be_answered_by_its_headers(http: aiohttp.ClientSession) -> None:
    def upgrades(headers: dict[str, str]) -> Accept | RefuseUpgrade:
        return Accept() if headers.get("authorization") == "Bearer good" else RefuseUpgrade(401)

    async with ScriptedUpstream(upgrades=upgrades) as up:
        with pytest.raises(aiohttp.WSServerHandshakeError):
            await http.ws_connect(f"{up.url}/responses")
        socket = await http.ws_connect(f"{up.url}/responses", headers={"Authorization": "Bearer good"})
        await socket.close()


async def test_the_envelope_feature_is_advertised_only_when_offered(http: aiohttp.ClientSession) -> None:
    for offered in (True, False):
        async with (
            ScriptedUpstream(envelope=offered, upgrades=Accept({"x-other": "1"})) as up,
            http.get(
                f"{up.url}/responses",
                headers={
                    "connection": "upgrade",
                    "upgrade": "websocket",
                    "sec-websocket-version": "13",
                    "sec-websocket-key": "AAAAAAAAAAAAAAAAAAAAAA==",
                },
            ) as answer,
        ):
            assert answer.status == 101
            assert answer.headers.get(FEATURES_HEADER) == ("envelope" if offered else None)
            assert answer.headers["x-other"] == "1"
            answer.close()


async def test_other_endpoints_are_recorded_and_answered(http: aiohttp.ClientSession) -> None:
    def others(call: Call) -> Reply:
        return Reply(202, f"{call.method} {call.path} {call.body.decode()}".encode(), {"content-type": "text/plain"})

    async with (
        ScriptedUpstream(others=others) as up,
        http.post(f"{up.url}/responses/compact?x=1", data=b"body") as response,
    ):
        assert (response.status, await response.text()) == (202, "POST /v1/responses/compact?x=1 body")
    assert (up.calls[0].path, up.turns) == ("/v1/responses/compact?x=1", [])


async def test_other_endpoints_do_not_exist_by_default(http: aiohttp.ClientSession) -> None:
    async with ScriptedUpstream() as up, http.get(f"{up.url}/models") as response:
        assert response.status == 404
        assert (await response.json())["error"]["type"] == "invalid_request_error"


async def test_a_compressed_body_counts_as_it_came(http: aiohttp.ClientSession) -> None:
    body = {"input": "a" * 10_000}
    async with (
        ScriptedUpstream() as up,
        http.post(f"{up.url}/responses", json=body, compress="gzip") as response,
    ):
        assert response.status == 200
    assert json.loads(up.turns[0].raw) == body
    assert 0 < up.turns[0].size < 1000 < len(up.turns[0].raw)


async def test_a_warm_up_is_answered_without_the_script(http: aiohttp.ClientSession) -> None:
    async with ScriptedUpstream([Play(items=[message("b")])]) as up, http.ws_connect(f"{up.url}/responses") as socket:
        warm = (await ws_turn(socket, create([user("a")], store=False, generate=False)))[-1]["response"]
        assert warm["output"] == []
        await ws_turn(socket, create([user("c")], store=False, previous_response_id=warm["id"]))
    assert [item.value for item in up.turns[1].context] == [user("a"), user("c")]


async def test_a_warm_up_can_be_left_to_the_script(http: aiohttp.ClientSession) -> None:
    play = Play(items=[message("b")])
    async with ScriptedUpstream([play], script_warmups=True) as up, http.ws_connect(f"{up.url}/responses") as socket:
        assert len((await ws_turn(socket, create([], generate=False)))[-1]["response"]["output"]) == 1


async def test_a_body_in_an_unknown_coding_is_refused(http: aiohttp.ClientSession) -> None:
    async with (
        ScriptedUpstream() as up,
        http.post(f"{up.url}/responses", data=b"{}", headers={"content-encoding": "rot13"}) as response,
    ):
        assert response.status == 415
    assert up.turns == []


async def test_an_upstream_that_keeps_little_goes_on_counting_and_forgets_what_is_old(
    http: aiohttp.ClientSession,
) -> None:
    async with ScriptedUpstream(keep=2, name="b_") as up:
        names = []
        for _ in range(7):
            async with http.post(f"{up.url}/responses", json={"input": "hi"}) as response:
                names.append((await response.json())["id"])
            async with http.get(f"{up.url}/models"):
                pass
            async with http.ws_connect(f"{up.url}/responses"):
                pass
    assert names == [f"resp_b_{number:06}" for number in range(1, 8)]
    assert [turn.number for turn in up.turns][-2:] == [6, 7]
    assert [connection.number for connection in up.connections][-2:] == [6, 7]
    assert max(len(up.turns), len(up.calls), len(up.connections), len(up.upgrade_attempts)) <= 4


async def test_an_upstream_can_come_back_at_its_address_under_other_names(http: aiohttp.ClientSession) -> None:
    async with ScriptedUpstream(name="1_") as first:
        port = int(first.url.split(":")[2].removesuffix("/v1"))
        async with http.post(f"{first.url}/responses", json={"input": "hi"}) as response:
            made = (await response.json())["id"]
    async with (
        ScriptedUpstream(name="2_", listen=("127.0.0.1", port)) as second,
        http.post(f"{first.url}/responses", json={"input": "hi", "previous_response_id": made}) as response,
    ):
        assert second.url == first.url
        assert response.status == 400


async def test_at_the_end_of_the_upstream_its_connections_are_reset(http: aiohttp.ClientSession) -> None:
    async with ScriptedUpstream(keep=1) as up:
        sockets = [await http.ws_connect(f"{up.url}/responses") for _ in range(5)]
    for socket in sockets:
        assert (await socket.receive()).type in {aiohttp.WSMsgType.CLOSED, aiohttp.WSMsgType.ERROR}
