from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from state import context
from state.canon import canonical
from state.context import form_of
from tests.upstream.helpers import (
    TERMINAL,
    WEATHER,
    answer_of,
    appended,
    check_events,
    outputs,
    post,
    serving,
    stream,
    told,
    turn,
    without_ids,
)
from tests.upstream.sockets import (
    Socket,
    by_lane,
    connected,
    done,
    error_of,
    last_on,
    refusal,
    send,
    until_begun,
)
from upstream.app import Running, start
from upstream.engines.sim import Sim
from upstream.settings import UpstreamSettings
from wire.extensions import CONTEXT_FIELD, envelope_digest

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from upstream.engine import Part, Prompt


@pytest.fixture
async def socket(server: Running, http: aiohttp.ClientSession) -> AsyncIterator[Socket]:
    async with http.ws_connect(f"{server.url}/v1/responses", max_msg_size=0) as opened:
        yield opened


async def test_a_create_is_answered_with_the_same_events_as_a_stream(
    server: Running, http: aiohttp.ClientSession, socket: Socket
) -> None:
    body = {"model": "gpt-5.5", "input": "hi", "tools": [WEATHER], "reasoning": {"summary": "auto"}}
    over_socket = await turn(socket, **body)
    over_http = await stream(http, server.url, **body)

    check_events(over_socket)
    assert without_ids(over_socket) == without_ids(over_http)


async def test_members_that_say_nothing_on_a_socket_are_ignored(socket: Socket) -> None:
    response = await done(
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
    first = await done(socket, model="m", input="hi", tools=[WEATHER], store=store)
    second = await done(
        socket, model="m", input=outputs(first), tools=[WEATHER], store=store, previous_response_id=first["id"]
    )

    assert second["previous_response_id"] == first["id"]
    assert second["usage"]["input_tokens_details"]["cached_tokens"] > 0


async def test_an_older_response_that_is_not_stored_is_gone(socket: Socket) -> None:
    first = await done(socket, model="m", input="hi", store=False)
    await done(socket, model="m", input="other", store=False)

    assert (await refusal(socket, model="m", input="x", store=False, previous_response_id=first["id"])) == {
        "type": "error",
        "status": 400,
        "error": {
            "type": "invalid_request_error",
            "code": "previous_response_not_found",
            "message": f"Previous response with id '{first['id']}' not found.",
            "param": "previous_response_id",
        },
    }
    assert (await done(socket, model="m", input="fresh", store=False))["status"] == "completed"


async def test_another_connection_continues_stored_responses_only(
    server: Running, http: aiohttp.ClientSession, socket: Socket
) -> None:
    stored = await done(socket, model="m", input="hi")
    local = await done(socket, model="m", input="hi", store=False)
    async with http.ws_connect(f"{server.url}/v1/responses") as other:
        assert (await done(other, model="m", input="x", previous_response_id=stored["id"]))["status"] == "completed"
        frame = await refusal(other, model="m", input="x", previous_response_id=local["id"])
        assert frame["error"]["code"] == "previous_response_not_found"
    status, _ = await post(http, server.url, model="m", input="x", previous_response_id=local["id"])
    assert status == 400


async def test_another_key_continues_nothing(server: Running, http: aiohttp.ClientSession, socket: Socket) -> None:
    stored = await done(socket, model="m", input="hi")
    async with http.ws_connect(f"{server.url}/v1/responses", headers={"authorization": "Bearer other"}) as other:
        frame = await refusal(other, model="m", input="x", previous_response_id=stored["id"])
        assert frame["error"]["code"] == "previous_response_not_found"


async def test_a_refused_continuation_evicts_its_parent(socket: Socket) -> None:
    first = await done(socket, model="m", input="hi", store=False)
    orphan = [{"type": "function_call_output", "call_id": "call_none", "output": "x"}]
    frame = await refusal(socket, model="m", input=orphan, store=False, previous_response_id=first["id"])
    assert frame["error"]["message"] == "No tool call found for function call output with call_id call_none."
    frame = await refusal(socket, model="m", input="x", store=False, previous_response_id=first["id"])
    assert frame["error"]["code"] == "previous_response_not_found"


async def test_a_continuation_that_is_cut_short_evicts_its_parent(socket: Socket) -> None:
    first = await done(socket, model="m", input="hi", store=False)
    more: dict[str, Any] = {"model": "m", "input": "x", "store": False, "previous_response_id": first["id"]}
    cut = await turn(socket, **more, max_output_tokens=1)
    assert cut[-1]["type"] == "response.incomplete"
    frame = await refusal(socket, **more)
    assert frame["error"]["code"] == "previous_response_not_found"


async def test_a_warm_up_prepares_a_chain(socket: Socket) -> None:
    warm = await turn(socket, model="m", input=[], instructions="be", store=False, generate=False)
    assert [event["type"] for event in warm] == ["response.created", "response.in_progress", "response.completed"]
    check_events(warm)
    assert warm[-1]["response"]["output"] == []
    made = await done(socket, model="m", input="hi", store=False, previous_response_id=warm[-1]["response"]["id"])
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
        ('{"type":"response.create","model":"m","input":"x","stream_id":""}', "stream_id"),
        ('{"type":"response.create","model":"m","input":"x","previous_response_id":3}', "previous_response_id"),
    ],
)
async def test_a_bad_frame_is_answered_and_survived(socket: Socket, frame: str, param: str | None) -> None:
    await socket.send_str(frame)

    assert (await error_of(socket))["error"]["param"] == param
    assert (await done(socket, model="m", input="hi"))["status"] == "completed"


async def test_a_binary_frame_is_answered_and_survived(socket: Socket) -> None:
    await socket.send_bytes(b'{"type":"response.create"}')

    assert (await error_of(socket))["status"] == 400
    assert (await done(socket, model="m", input="hi"))["status"] == "completed"


async def test_a_frame_beyond_the_limit_ends_the_connection_with_1009(http: aiohttp.ClientSession) -> None:
    async with connected(http, max_frame=1000) as (_, socket):
        await socket.send_str("x" * 2000)
        message = await socket.receive(timeout=10)
        assert (message.type, message.data) == (aiohttp.WSMsgType.CLOSE, 1009)


async def test_one_frame_more_than_may_wait_is_refused(http: aiohttp.ClientSession) -> None:
    async with connected(http, queue_frames=1, tokens_per_second=0.01) as (_, socket):
        await socket.send_str('{"type":"response.create","model":"m","input":"1"}')
        assert (await socket.receive_json(timeout=10))["type"] == "response.created"
        for _ in range(2):
            await socket.send_str('{"type":"response.create","model":"m","input":"2"}')
        seen = [await socket.receive_json(timeout=10)]
        while seen[-1]["type"] != "error":
            seen.append(await socket.receive_json(timeout=10))
        assert (seen[-1]["status"], seen[-1]["error"]["code"]) == (429, "too_many_requests")


async def test_a_connection_that_is_old_ends_its_turn_says_so_and_closes(http: aiohttp.ClientSession) -> None:
    async with connected(http, tokens_per_second=200) as (server, socket):
        await socket.send_str('{"type":"response.create","model":"m","input":"1"}')
        assert (await socket.receive_json(timeout=10))["type"] == "response.created"
        next(iter(server._ws.connections))._expire()
        assert (await answer_of(socket))[-1]["type"] == "response.completed"
        frame = await error_of(socket)
        assert frame["error"]["code"] == "websocket_connection_limit_reached"
        assert "(60 minutes)" in frame["error"]["message"]
        assert (await socket.receive(timeout=10)).type is aiohttp.WSMsgType.CLOSE


async def test_the_age_is_counted_from_the_handshake(http: aiohttp.ClientSession) -> None:
    async with connected(http, connection_max_age=0.01) as (_, socket):
        assert (await error_of(socket))["error"]["code"] == "websocket_connection_limit_reached"


async def test_a_client_that_leaves_ends_the_generation(http: aiohttp.ClientSession) -> None:
    async with serving(tokens_per_second=0.01) as server:
        async with http.ws_connect(f"{server.url}/v1/responses") as socket:
            await socket.send_str('{"type":"response.create","model":"m","input":"1"}')
            assert (await socket.receive_json(timeout=10))["type"] == "response.created"
            assert len([task for task in asyncio.all_tasks() if task.get_name() == "upstream-turn"]) == 1
        await asyncio.wait_for(server._http.idle.wait(), 10)
        assert not [task for task in asyncio.all_tasks() if task.get_name() == "upstream-turn"]
        assert not server._ws.connections


async def test_digests_stand_for_members_that_the_connection_has_carried(socket: Socket) -> None:
    tools = [WEATHER | {"description": "d" * 300}]
    raw = json.dumps(tools, separators=(",", ":"))
    digest = envelope_digest(raw.encode())
    await socket.send_str(f'{{"type":"response.create","model":"m","input":"hi","store":false,"tools":{raw}}}')
    first = (await answer_of(socket))[-1]["response"]
    second = await done(
        socket, model="m", input=outputs(first), store=False, previous_response_id=first["id"],
        deltawire_envelope={"tools": digest},
    )  # fmt: skip

    assert second["tools"] == first["tools"]
    assert second["output"][0]["type"] == "function_call"


async def test_an_unknown_digest_starts_nothing_and_keeps_the_parent(socket: Socket) -> None:
    first = await done(socket, model="m", input="hi", store=False)
    frame = await refusal(
        socket, model="m", input="x", store=False, previous_response_id=first["id"],
        deltawire_envelope={"tools": "0" * 64},
    )  # fmt: skip

    assert (frame["status"], frame["error"]["code"], frame["error"]["param"]) == (
        409,
        "deltawire_envelope_unknown",
        "tools",
    )
    assert (await done(socket, model="m", input="x", store=False, previous_response_id=first["id"]))["status"]


async def test_the_handshake_offers_the_extensions(socket: Socket) -> None:
    assert socket._response.headers["x-deltawire-features"] == "envelope, append, context"
    assert socket._response.headers["x-request-id"].startswith("req_")


async def test_a_conversation_is_compared_before_anything_starts_and_one_that_differs_is_given_up(
    socket: Socket,
) -> None:
    bound = bytes.fromhex(socket._response.headers["x-deltawire-nonce"])
    first = await done(socket, model="m", input="hi", store=False)
    whole = [{"role": "user", "content": "hi"}, *first["output"], {"role": "user", "content": "x"}]
    forms = (form_of(canonical(json.dumps(item).encode())) for item in whole)
    digest = context.bound(bound, context.extend(context.START, forms) or b"")
    asks = {"model": "m", "input": [whole[-1]], "store": False}
    second = await done(socket, **asks, previous_response_id=first["id"], deltawire_context=digest)
    assert second["status"] == "completed"
    for field, more in (("previous_response_id", {}), ("response_id", {"type": "response.append"})):
        first = await done(socket, model="m", input="other", store=False)
        await socket.send_json({"type": "response.create", **asks, field: first["id"], **more, CONTEXT_FIELD: digest})
        (frame,) = await answer_of(socket)
        assert (frame["status"], frame["error"]["code"]) == (409, "context_mismatch")
        frame = await refusal(socket, **asks, previous_response_id=first["id"])
        assert frame["error"]["code"] == "previous_response_not_found"


async def test_a_plain_server_offers_nothing_and_refuses_digests(http: aiohttp.ClientSession) -> None:
    async with connected(http, features=()) as (_, socket):
        assert "x-deltawire-features" not in socket._response.headers
        frame = await refusal(socket, model="m", input="x", deltawire_envelope={"tools": "0" * 64})
        assert (frame["status"], frame["error"]["code"]) == (400, "unknown_parameter")
        frame = await refusal(socket, model="m", input="x", deltawire_context="0" * 64)
        assert (frame["status"], frame["error"]["code"]) == (400, "unknown_parameter")
        assert "x-deltawire-nonce" not in socket._response.headers
        (frame,) = await appended(socket, "resp_1", input="x")
        assert (frame["status"], frame["error"]["param"]) == (400, "type")


async def test_the_latest_response_is_resumed_time_and_again(server: Running, socket: Socket) -> None:
    first = await done(socket, model="m", input="hi", tools=[WEATHER], instructions="be", store=True)
    events = await appended(socket, first["id"], input=outputs(first))
    second = told(events)
    third = told(await appended(socket, second["id"], input=outputs(second), store=False))

    assert [events[0]["type"], events[-1]["type"]] == ["response.resumed", "response.done"]
    assert [event["sequence_number"] for event in events[1:]] == list(range(2, len(events) + 1))
    assert len({first["id"], second["id"], third["id"]}) == 3
    assert [one["output"][0]["type"] for one in (first, second, third)] == ["function_call"] * 3
    async with (
        aiohttp.ClientSession() as http,
        http.get(f"{server.url}/v1/responses/{second['id']}") as stored,
        http.get(f"{server.url}/v1/responses/{third['id']}") as unstored,
    ):
        whole = await stored.json()
        assert unstored.status == 404
    check_events([{"type": "response.completed", "sequence_number": 0, "response": whole}])
    assert whole | second == whole
    assert (whole["previous_response_id"], whole["instructions"]) == (first["id"], "be")
    assert whole["tools"] == first["tools"]


async def test_a_response_that_cannot_be_resumed_is_refused_and_evicted_as_any_parent(socket: Socket) -> None:
    first = await done(socket, model="m", input="hi", store=False)
    (frame,) = await appended(socket, "resp_none", input="x")
    assert (frame["status"], frame["error"]["code"]) == (400, "previous_response_not_found")
    (frame,) = await appended(socket, first["id"], input="x", temperature=9)
    assert (frame["status"], frame["error"]["param"]) == (400, "temperature")
    (frame,) = await appended(socket, first["id"], input="x")
    assert frame["error"]["code"] == "previous_response_not_found"
    assert (await done(socket, model="m", input="hi"))["status"] == "completed"


async def test_a_resumed_turn_that_is_cut_short_says_so_and_is_not_resumed(socket: Socket) -> None:
    first = await done(socket, model="m", input="hi", store=False)
    cut = (await appended(socket, first["id"], input="x", max_output_tokens=1))[-1]
    assert (cut["type"], cut["response"]["status"]) == ("response.done", "incomplete")
    (frame,) = await appended(socket, first["id"], input="x")
    assert frame["error"]["code"] == "previous_response_not_found"


async def test_each_lane_resumes_its_own(socket: Socket) -> None:
    ids = {}
    for name in ("a", "b"):
        ids[name] = (await last_on(socket, name, input="hi"))["response"]["id"]
    for name in ("a", "b"):
        frame = {"type": "response.append", "stream_id": name, "response_id": ids[name], "input": "more"}
        await socket.send_str(json.dumps(frame))
    answers = await by_lane(socket, 2)
    assert [answers[name][-1]["type"] for name in ("a", "b")] == ["response.done"] * 2
    await socket.send_str(json.dumps({"type": "response.append", "response_id": ids["a"], "input": "more"}))
    assert (await error_of(socket))["error"]["code"] == "previous_response_not_found"


async def test_compressed_messages_are_understood_both_ways(server: Running, http: aiohttp.ClientSession) -> None:
    async with http.ws_connect(f"{server.url}/responses", compress=15) as socket:
        assert socket.compress == 15
        assert (await done(socket, model="m", input="x" * 5000))["status"] == "completed"


async def test_the_server_pings(http: aiohttp.ClientSession) -> None:
    async with connected(http, autoping=False, heartbeat=0.05) as (_, socket):
        assert (await socket.receive(timeout=10)).type is aiohttp.WSMsgType.PING


async def test_a_compressed_message_is_measured_by_what_it_holds(http: aiohttp.ClientSession) -> None:
    async with connected(http, compress=15, max_frame=100_000) as (_, socket):
        await socket.send_str("x" * 200_000)
        message = await socket.receive(timeout=10)
        assert (message.type, message.data) == (aiohttp.WSMsgType.CLOSE, 1009)


async def test_compression_can_be_switched_off(http: aiohttp.ClientSession) -> None:
    async with connected(http, compress=15, compression="off") as (_, socket):
        assert socket.compress == 0
        assert (await done(socket, model="m", input="x"))["status"] == "completed"


async def test_text_that_is_not_utf8_fails_the_connection_with_1007(socket: Socket) -> None:
    await socket.send_frame(b'{"type":"\xff"}', aiohttp.WSMsgType.TEXT)

    message = await socket.receive(timeout=10)
    assert (message.type, message.data) == (aiohttp.WSMsgType.CLOSE, 1007)


async def test_a_client_that_answers_no_ping_is_let_go(http: aiohttp.ClientSession) -> None:
    async with serving(heartbeat=0.05) as server, http.ws_connect(f"{server.url}/v1/responses", autoping=False):
        await asyncio.wait_for(server._http.idle.wait(), 10)
        assert not server._ws.connections


# Lanes


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Every answer stops after its first part until this is set."""
    gate, generate = asyncio.Event(), Sim.generate

    async def holding(self: Sim, prompt: Prompt) -> AsyncIterator[Part]:
        async with aclosing(generate(self, prompt)) as parts:
            yield await anext(parts)
            await gate.wait()
            async for part in parts:
                yield part

    monkeypatch.setattr(Sim, "generate", holding)
    return gate


async def test_lanes_run_beside_each_other_and_each_has_all_of_its_events(held: asyncio.Event, socket: Socket) -> None:
    for name in ("a", "b", None):
        await send(socket, name, input=f"for {name}")
    begun = await until_begun(socket, 3)
    held.set()
    ended = await by_lane(socket, 3)

    assert ended.keys() == {"a", "b", None}
    for name, rest in ended.items():
        first = [event for event in begun if event.get("stream_id") == name]
        check_events(first + rest)
        assert rest[-1]["type"] == "response.completed"


async def test_a_tagged_event_is_one_that_clients_know(socket: Socket) -> None:
    await send(socket, "main", input="hi")

    check_events(events := await answer_of(socket))
    assert {event["stream_id"] for event in events} == {"main"}


async def test_within_a_lane_turns_follow_each_other(socket: Socket) -> None:
    for text in ("one", "two"):
        await send(socket, "a", input=text)
    events = (await by_lane(socket, 2))["a"]

    kinds = [event["type"] for event in events if event["type"] in TERMINAL | {"response.created"}]
    assert kinds == ["response.created", "response.completed"] * 2
    assert len({event["response"]["id"] for event in events if "response" in event}) == 2


async def test_the_seventeenth_waits_until_one_ends(held: asyncio.Event, http: aiohttp.ClientSession) -> None:
    async with connected(http, queue_frames=1) as (_, socket):
        for number in range(16):
            await send(socket, f"lane-{number}", input="hi")
        await until_begun(socket, 16)
        await send(socket, "lane-16", input="hi")
        await send(socket, "lane-0", input="hi")  # one too many to wait, which is told at once
        before = await by_lane(socket, 1)
        assert before["lane-0"][-1]["error"]["code"] == "too_many_requests"
        assert "lane-16" not in before
        held.set()
        after = await by_lane(socket, 17)
        assert after["lane-16"][0]["type"] == "response.created"
        assert {events[-1]["type"] for events in after.values()} == {"response.completed"}


async def test_each_lane_continues_its_own_latest(socket: Socket) -> None:
    latest = {name: await last_on(socket, name, input=f"first of {name}", tools=[WEATHER]) for name in ("a", "b", None)}
    for name, event in latest.items():
        response = event["response"]
        then = await last_on(
            socket, name, input=outputs(response), tools=[WEATHER], previous_response_id=response["id"]
        )  # fmt: skip
        assert then["type"] == "response.completed"
        assert then["response"]["usage"]["input_tokens_details"]["cached_tokens"] > 0


async def test_a_lane_may_continue_the_latest_of_another_and_not_an_older_one(socket: Socket) -> None:
    first = (await last_on(socket, "main", input="hi"))["response"]["id"]
    fork = await last_on(socket, "fork", input="x", previous_response_id=first)
    assert fork["type"] == "response.completed"
    assert (await last_on(socket, "main", input="on", previous_response_id=first))["type"] == "response.completed"
    late = await last_on(socket, "late", input="x", previous_response_id=first)

    assert late["error"]["code"] == "previous_response_not_found"


async def test_a_fork_that_fails_keeps_the_parent_and_its_own_lane_evicts_it(socket: Socket) -> None:
    first = (await last_on(socket, "main", input="hi"))["response"]["id"]
    orphan = [{"type": "function_call_output", "call_id": "call_none", "output": "x"}]
    assert (await last_on(socket, "fork", input=orphan, previous_response_id=first))["status"] == 400
    assert (await last_on(socket, "fork", input="x", previous_response_id=first))["type"] == "response.completed"
    assert (await last_on(socket, "main", input=orphan, previous_response_id=first))["status"] == 400
    gone = await last_on(socket, "main", input="x", previous_response_id=first)

    assert gone["error"]["code"] == "previous_response_not_found"


async def test_a_fork_holds_its_parent_from_the_moment_it_is_taken(socket: Socket) -> None:
    first = (await last_on(socket, "main", input="hi"))["response"]["id"]
    await send(socket, "fork", input="x", previous_response_id=first)
    await send(socket, "main", input="y", previous_response_id=first)
    answers = await by_lane(socket, 2)

    assert [answers[name][-1]["type"] for name in ("fork", "main")] == ["response.completed"] * 2


async def test_an_answer_that_breaks_off_evicts_its_parent(socket: Socket, monkeypatch: pytest.MonkeyPatch) -> None:
    first = (await last_on(socket, "a", input="hi"))["response"]["id"]
    with monkeypatch.context() as broken:
        broken.setattr("upstream.turns.answer.Answer._delta", _broken)
        assert (await last_on(socket, "a", input="x", previous_response_id=first))["type"] == "response.failed"
    gone = await last_on(socket, "a", input="x", previous_response_id=first)

    assert gone["error"]["code"] == "previous_response_not_found"


def _broken(*_: object) -> None:
    raise RuntimeError


async def test_errors_of_a_lane_name_it(socket: Socket) -> None:
    assert (await last_on(socket, "a", input=3))["error"]["param"] == "input"
    assert (await last_on(socket, "a", background=True))["error"]["param"] == "background"
    assert (await last_on(socket, None, input=3))["error"]["param"] == "input"


async def test_a_bad_name_is_refused_in_its_turn_without_a_name(held: asyncio.Event, socket: Socket) -> None:
    await send(socket, None, input="hi")
    await send(socket, "no good", input="hi")
    await socket.send_bytes(b"{}")
    await until_begun(socket, 1)
    held.set()
    ((name, events),) = (await by_lane(socket, 3)).items()

    assert name is None
    assert [event["type"] for event in events][-3:] == ["response.completed", "error", "error"]
    assert events[-2]["error"]["code"] == "invalid_stream_id"


async def test_the_thirty_third_name_is_refused_and_the_others_go_on(socket: Socket) -> None:
    for number in range(32):
        assert (await last_on(socket, f"agent_{number}", input="hi"))["type"] == "response.completed"
    refused = await last_on(socket, "agent_33", input="hi")

    assert (refused["status"], refused["error"]["code"]) == (400, "websocket_stream_limit_reached")
    assert (await last_on(socket, "agent_0", input="hi"))["type"] == "response.completed"
    assert (await last_on(socket, None, input="hi"))["type"] == "response.completed"


@pytest.mark.parametrize("changed", [{"lanes": "off"}, {"dialect": "open-responses"}], ids=str)
async def test_lanes_can_be_switched_off(http: aiohttp.ClientSession, changed: dict[str, Any]) -> None:
    async with connected(http, **changed) as (_, socket):
        await send(socket, None, input="hi")
        await send(socket, "main", input="hi")
        ((name, events),) = (await by_lane(socket, 2)).items()
        assert name is None
        assert [event["type"] for event in events][-2:] == ["response.completed", "error"]
        assert events[-1]["error"]["code"] == "invalid_stream_id"


async def test_at_the_age_limit_lanes_end_what_runs_and_say_so_of_what_waits(
    held: asyncio.Event, server: Running, socket: Socket
) -> None:
    for name in ("a", "a", "b"):
        await send(socket, name, input="hi")
    await until_begun(socket, 2)
    next(iter(server._ws.connections))._expire()
    await send(socket, "c", input="late")
    late = await by_lane(socket, 1)
    assert late["c"][-1]["error"]["code"] == "websocket_connection_limit_reached"
    held.set()
    answers = await by_lane(socket, 4)

    kinds = [event["type"] for event in answers["a"] if event["type"] in TERMINAL]
    assert kinds == ["response.completed", "error"]
    assert answers["a"][-1]["error"]["code"] == "websocket_connection_limit_reached"
    assert answers["b"][-1]["type"] == "response.completed"
    assert [event["error"]["code"] for event in answers[None]] == ["websocket_connection_limit_reached"]
    message = await socket.receive(timeout=10)
    assert (message.type, message.data) == (aiohttp.WSMsgType.CLOSE, 1000)


async def test_at_the_age_limit_the_default_lane_is_told_once(
    held: asyncio.Event, server: Running, socket: Socket
) -> None:
    await send(socket, "a", input="hi")
    for _ in range(2):
        await send(socket, None, input="hi")
    await until_begun(socket, 2)
    next(iter(server._ws.connections))._expire()
    held.set()
    answers = await by_lane(socket, 3)

    assert [event["type"] for event in answers[None]][-2:] == ["response.completed", "error"]
    assert (await socket.receive(timeout=10)).type is aiohttp.WSMsgType.CLOSE


async def test_a_closing_server_tells_an_idle_client_nothing_but_the_close(http: aiohttp.ClientSession) -> None:
    server = await start(UpstreamSettings(port=0))
    async with http.ws_connect(f"{server.url}/v1/responses") as socket:
        await send(socket, "a", input="hi")
        await by_lane(socket, 1)
        closing = asyncio.ensure_future(server.close())
        message = await socket.receive(timeout=10)
        assert (message.type, message.data) == (aiohttp.WSMsgType.CLOSE, 1001)
    await asyncio.wait_for(closing, 10)


async def test_a_closing_server_refuses_what_waits(held: asyncio.Event, http: aiohttp.ClientSession) -> None:
    server = await start(UpstreamSettings(port=0, drain_seconds=60))
    async with http.ws_connect(f"{server.url}/v1/responses") as socket:
        await send(socket, None, input="hi")
        await until_begun(socket, 1)
        await send(socket, None, input="hi")
        await send(socket, "x", input=3)
        assert (await by_lane(socket, 1))["x"][-1]["error"]["param"] == "input", "all before it has been read"
        closing = asyncio.ensure_future(server.close())
        await asyncio.sleep(0)
        held.set()
        events = (await by_lane(socket, 2))[None]
        assert events[-2]["type"] == "response.completed"
        assert (events[-1]["status"], events[-1]["error"]["code"]) == (503, "service_unavailable")
        assert (await socket.receive(timeout=10)).data == 1001
    await asyncio.wait_for(closing, 10)


async def test_a_client_that_leaves_ends_all_lanes(http: aiohttp.ClientSession) -> None:
    async with serving(tokens_per_second=0.01) as server:
        async with http.ws_connect(f"{server.url}/v1/responses") as socket:
            for name in ("a", "b", "a"):
                await send(socket, name, input="hi")
            seen = [(await socket.receive_json(timeout=10))["type"] for _ in range(2)]
            assert "response.created" in seen
        await asyncio.wait_for(server._http.idle.wait(), 10)
        assert not [task for task in asyncio.all_tasks() if task.get_name() == "upstream-turn"]
