"""A client that speaks WebSocket itself: its connection is the upstream's, and where there is none it learns so."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
from aiohttp import WSMsgType, web

from proxy import app
from proxy.upgrade import Traffic
from tests.support.responses import create, user, ws_turn
from tests.support.rig import Rig, Talk, rigged, until
from upstream.scripted import Accept, Play, message
from upstream.scripted.faults import Hold, RefuseUpgrade
from wire.extensions import FEATURES_HEADER

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from multidict import MultiMapping

AUTH = {"authorization": "Bearer sk-one"}


@asynccontextmanager
async def dialled(
    rig: Rig, headers: Mapping[str, str] = AUTH, path: str = "/v1/responses", **options: Any
) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
    async with rig.session.ws_connect(f"{rig.running.url}{path}", headers=headers, max_msg_size=0, **options) as socket:
        yield socket


async def refused(rig: Rig) -> tuple[int, MultiMapping[str]]:
    """Status and headers of a refused upgrade."""
    with pytest.raises(aiohttp.WSServerHandshakeError) as error:
        async with dialled(rig):
            raise AssertionError("was not refused")
    assert error.value.headers is not None
    return error.value.status, error.value.headers


async def test_turns_of_a_native_client_go_to_the_upstream_and_back_untouched() -> None:
    async with rigged() as rig:
        rig.checked = False  # these are frames and no bodies
        async with dialled(rig) as socket:
            first = await ws_turn(socket, create([user("a")], store=False))
            second = await ws_turn(
                socket, create([user("b")], store=False, previous_response_id=first[-1]["response"]["id"])
            )
        assert second[-1]["response"]["status"] == "completed"
        assert [turn.parent for turn in rig.up.turns] == ["", "resp_000001"]
        assert json.loads(rig.up.turns[1].raw)["input"] == [user("b")]
        assert len(rig.up.connections) == 1
        assert rig.links.pool.counts() == {"dialing": 0, "idle": 0, "busy": 0}


async def test_the_handshake_carries_headers_and_query_both_ways() -> None:
    accept = Accept({FEATURES_HEADER: "lanes", "x-models-etag": "e1", "x-request-id": "theirs"})
    async with rigged(upstream={"upgrades": accept}) as rig:
        sent = {**AUTH, "openai-beta": "b", "x-own": "1", "x-deltawire-reason": "spoofed", "cookie": "c=1"}
        async with dialled(rig, sent, "/responses?a=1") as socket:
            heard = rig.up.upgrade_attempts[0]
            for name in ("authorization", "openai-beta", "x-own", "cookie"):
                assert heard[name] == sent[name]
            assert "x-deltawire-reason" not in heard
            assert heard["host"] == rig.up.url.split("/")[2]
            answered = socket._response.headers
            assert answered["x-models-etag"] == "e1"
            assert answered["x-request-id"] == "theirs"
            assert FEATURES_HEADER not in answered


class Far:
    """An upstream of one WebSocket, driven by the test."""

    def __init__(self, *protocols: str) -> None:
        self.socket = web.WebSocketResponse(protocols=protocols, autoping=False, autoclose=False)
        self.ready = asyncio.Event()
        self.gone = asyncio.Event()
        self.heard: list[aiohttp.WSMessage] = []

    async def serve(self, request: web.Request) -> web.WebSocketResponse:
        self.request = request
        await self.socket.prepare(request)
        self.ready.set()
        try:
            while not self.heard or self.heard[-1].type not in {WSMsgType.CLOSE, WSMsgType.CLOSED, WSMsgType.ERROR}:
                self.heard.append(await self.socket.receive())
        finally:
            self.gone.set()
        return self.socket


@asynccontextmanager
async def carried(
    *protocols: str, drain: float = 0.0, **options: Any
) -> AsyncIterator[tuple[aiohttp.ClientWebSocketResponse, Far, Rig]]:
    """A client's socket, carried to an upstream's."""
    far = Far(*protocols)
    app = web.Application()
    app.router.add_get("/v1/responses", far.serve)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.05)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    try:
        async with (
            rigged(url=f"http://{host}:{port}/v1", drain=drain) as rig,
            dialled(rig, autoping=False, autoclose=False, **options) as near,
        ):
            await far.ready.wait()
            yield near, far, rig
    finally:
        await runner.cleanup()


async def test_messages_of_every_kind_pass_both_ways() -> None:
    async with carried() as (near, far, _):
        await near.send_str("ä")
        await near.send_bytes(b"\x00")
        await near.ping(b"p")
        await near.pong(b"q")
        await until(lambda: len(far.heard) == 4)
        assert [(message.type, message.data) for message in far.heard] == [
            (WSMsgType.TEXT, "ä"),
            (WSMsgType.BINARY, b"\x00"),
            (WSMsgType.PING, b"p"),
            (WSMsgType.PONG, b"q"),
        ]
        await far.socket.send_str("x" * 2**23)
        await far.socket.ping(b"r")
        assert (await near.receive()).data == "x" * 2**23
        assert (await near.receive()).type is WSMsgType.PING


async def test_the_subprotocol_is_the_one_that_the_upstream_chose() -> None:
    async with carried("b", protocols=("a", "b")) as (near, far, _):
        assert near.protocol == "b"
        assert far.request.headers["sec-websocket-protocol"].replace(" ", "") == "a,b"


@pytest.mark.parametrize("code", [1000, 1001, 1008, 1011, 4000])
async def test_the_code_and_reason_with_which_the_upstream_closes_reach_the_client(code: int) -> None:
    async with carried() as (near, far, _):
        closing = asyncio.ensure_future(far.socket.close(code=code, message=b"because"))
        message = await near.receive()
        assert (message.type, message.data, message.extra) == (WSMsgType.CLOSE, code, "because")
        await near.close()
        await closing


@pytest.mark.parametrize("code", [1000, 1001, 4001])
async def test_the_code_and_reason_with_which_the_client_closes_reach_the_upstream(code: int) -> None:
    async with carried() as (near, far, _):
        await near.close(code=code, message=b"done")
        await far.gone.wait()
        last = far.heard[-1]
        assert (last.type, last.data, last.extra) == (WSMsgType.CLOSE, code, "done")


async def test_an_upstream_that_breaks_off_is_a_close_that_may_stand_on_the_wire() -> None:
    async with carried() as (near, far, _):
        assert far.request.transport is not None
        far.request.transport.abort()
        message = await near.receive()
        assert (message.type, message.data) == (WSMsgType.CLOSE, 1011)


async def test_a_client_that_breaks_off_ends_the_upstreams_connection() -> None:
    async with carried() as (near, far, rig):
        connection = near._response.connection
        assert connection is not None
        assert connection.transport is not None
        connection.transport.abort()
        await far.gone.wait()
        assert far.heard[-1].type in {WSMsgType.CLOSE, WSMsgType.CLOSED, WSMsgType.ERROR}
        await until(lambda: not rig.running.sidecar._active)


async def test_at_the_end_of_the_sidecar_both_sides_are_told_that_it_goes_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "_LAST_WORDS", 0.05)
    async with carried() as (near, far, rig):
        closing = asyncio.ensure_future(rig.running.close())
        message = await near.receive()
        assert (message.type, message.data) == (WSMsgType.CLOSE, 1001)
        await near.close()
        await far.gone.wait()
        assert far.heard[-1].data == 1001
        await closing


async def test_a_carried_connection_on_which_nothing_runs_does_not_hold_the_end_up() -> None:
    async with rigged(drain=3600.0) as rig:
        rig.checked = False
        async with dialled(rig) as socket:
            await ws_turn(socket, create([user("a")], store=False))
            closing = asyncio.ensure_future(rig.running.close())
            message = await socket.receive()
            assert (message.type, message.data) == (WSMsgType.CLOSE, 1001)
            await closing


async def test_a_turn_that_runs_on_a_carried_connection_is_let_end_first() -> None:
    gate = asyncio.Event()
    async with rigged(lambda _: Play(items=[message("m")], faults=[Hold(gate, 3)]), drain=3600.0) as rig:
        rig.checked = False
        async with dialled(rig) as socket:
            turn = asyncio.ensure_future(ws_turn(socket, create([user("a")], store=False)))
            await rig.up.until(lambda: bool(rig.up.turns) and rig.up.turns[0].events_sent == 3)
            closing = asyncio.ensure_future(rig.running.close())
            await until(lambda: rig.running.sidecar.draining)
            assert not closing.done()
            gate.set()
            assert (await turn)[-1]["type"] == "response.completed"
            assert (await socket.receive()).data == 1001
            await closing


CREATE = {"type": "response.create", "model": "m", "input": "a"}
DONE = {"type": "response.completed"}
ERROR = {"type": "error", "status": 400}
A: dict[str, Any] = {"stream_id": "a"}


@pytest.mark.parametrize(
    ("asked", "answered", "left"),
    [
        ([CREATE], [{"type": "response.created"}], 1),
        ([CREATE], [DONE], 0),
        ([CREATE | {"type": "response.append"}], [{"type": "response.resumed"}], 1),
        ([CREATE | {"type": "response.append"}], [{"type": "response.done"}], 0),
        ([CREATE], [ERROR], 0),
        ([CREATE, CREATE], [DONE], 1),
        ([CREATE | A, CREATE], [DONE], 1),
        ([CREATE | A, CREATE], [DONE, ERROR | A], 0),
        ([CREATE | A], [DONE, ERROR], 1),
        ([CREATE | A, "not json"], [ERROR], 1),
        ([CREATE, "not json"], [ERROR], 1),
        ([CREATE, "not json"], [ERROR, DONE], 0),
        ([CREATE, "not json"], [ERROR, ERROR], 0),
        ([CREATE | A, {"type": "other"} | A], [ERROR | A], 1),
        ([CREATE, CREATE | {"stream_id": "no name"}], [ERROR], 1),
        ([CREATE | {"stream_id": ""}], [ERROR], 0),
        ([CREATE | {"stream_id": 7}], [ERROR], 0),
        (["\ud800"], [ERROR, DONE], 0),
    ],
)
async def test_a_turn_runs_until_its_own_lane_tells_its_end(asked: list[Any], answered: list[Any], left: int) -> None:
    traffic = Traffic()
    for frame in asked:
        traffic.asked(frame if isinstance(frame, str) else json.dumps(frame))
    for frame in answered:
        traffic.answered(json.dumps(frame))
    assert traffic.quiet.is_set() is (left == 0)
    assert sum(traffic._turns.values()) == left


async def test_an_error_of_another_lane_does_not_cut_a_carried_turn() -> None:
    async with carried(drain=3600.0) as (near, far, rig):
        await near.send_json(CREATE | A)
        await near.send_str("not json")
        await until(lambda: len(far.heard) == 2)
        closing = asyncio.ensure_future(rig.running.close())
        await until(lambda: rig.running.sidecar.draining)
        for event in (ERROR, {"type": "response.output_text.delta"} | A, DONE | A):
            await far.socket.send_json(event)
            assert (await near.receive()).json() == event
        assert (await near.receive()).data == 1001
        await near.close()
        await closing


@pytest.mark.parametrize("status", [400, 404, 405, 426, 501])
async def test_an_upstream_without_websockets_is_426_at_once_the_second_time(status: int) -> None:
    async with rigged(upstream={"upgrades": RefuseUpgrade(status)}) as rig:
        for _ in range(2):
            found, headers = await refused(rig)
            assert (found, headers["upgrade"]) == (426, "websocket")
        assert len(rig.up.upgrade_attempts) == 1
        assert (await Talk(rig).say("a")).way == ("http", "no_websocket")


async def test_an_upgrade_that_one_client_is_refused_takes_no_links_from_others() -> None:
    async with rigged(upstream={"upgrades": [RefuseUpgrade(400), Accept()]}) as rig:
        assert (await refused(rig))[0] == 426
        rig.checked = False
        other = {"authorization": "Bearer sk-two"}
        async with dialled(rig, other) as socket:
            assert (await ws_turn(socket, create([user("a")])))[-1]["type"] == "response.completed"
        assert (await Talk(rig, key="sk-two").say("a")).way == ("full", "first_turn")
        assert (await Talk(rig).say("a")).way == ("http", "no_websocket")


@pytest.mark.parametrize("status", [401, 403, 429, 500, 503])
async def test_a_refusal_of_this_caller_passes_with_its_status_and_is_not_remembered(status: int) -> None:
    refusal = RefuseUpgrade(status, headers={"retry-after": "5"})
    async with rigged(upstream={"upgrades": [refusal, Accept()]}) as rig:
        found, headers = await refused(rig)
        assert (found, headers["retry-after"]) == (status, "5")
        async with dialled(rig):
            assert len(rig.up.upgrade_attempts) == 2


async def test_an_answer_to_an_upgrade_that_is_no_refusal_is_426_too() -> None:
    async def page(_: web.Request) -> web.Response:
        return web.Response(text="hello")

    app = web.Application()
    app.router.add_get("/v1/responses", page)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    async with rigged(url=f"http://{host}:{port}/v1") as rig:
        assert (await refused(rig))[0] == 426
    await runner.cleanup()


async def test_an_upstream_that_cannot_be_reached_is_a_502() -> None:
    async with rigged(url="http://127.0.0.1:1/v1") as rig:
        status, headers = await refused(rig)
        assert (status, headers["x-deltawire-error"]) == (502, "upstream_unreachable")


async def test_an_upgrade_that_is_no_websocket_handshake_leaves_no_connection_upstream() -> None:
    async with rigged() as rig:
        headers = {"connection": "upgrade", "upgrade": "websocket"}
        async with rig.session.get(rig.url, headers=headers) as answer:
            assert answer.status == 400
        if rig.up.connections:
            await rig.up.connections[0].closed.wait()


async def test_with_links_switched_off_a_native_client_is_carried_all_the_same() -> None:
    async with rigged(transport="http") as rig:
        rig.checked = False
        async with dialled(rig) as socket:
            assert (await ws_turn(socket, create([user("a")])))[-1]["type"] == "response.completed"
