import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import WSMsgType, web
from aiohttp.test_utils import TestServer

from bench.speed.turns import Client, Http, Socket, Talk, TurnFailed
from bench.speed.workload import Load, call_id
from tests.upstream.helpers import serving


def _client(kind: str, base: str) -> Client:
    return Socket(base) if kind == "frames" else Http(base, chained=kind == "id")


@pytest.mark.parametrize("kind", ["history", "id", "frames"])
async def test_every_client_leads_the_same_conversation(kind: str) -> None:
    load = Load(1)
    talk, new = Talk(load.envelope()), load.history(3000)
    sent = []
    async with serving(tool_turns=100) as server:
        client = _client(kind, f"{server.url}/v1")
        for _ in range(3):
            answer = await client.turn(talk, new)
            assert 0 < answer.first <= answer.whole
            assert answer.id == talk.last_id
            sent.append(answer.sent)
            new = [load.output(call_id(answer.items), 2000)]
        await client.close()
    assert [json.loads(item)["type"] for item in talk.items[-3:]] == [
        "function_call",
        "function_call_output",
        "function_call",
    ]
    if kind == "history":
        assert sent[0] < sent[1] < sent[2]
    else:
        assert sent[2] < 2000 + len(talk.envelope.head()) + 200


@asynccontextmanager
async def _answering(status: int, *frames: bytes) -> AsyncIterator[str]:
    async def post(_: web.Request) -> web.Response:
        return web.Response(status=status, body=b"".join(b"data: %b\n\n" % frame for frame in frames))

    async def upgrade(request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.receive()
        for frame in frames:
            await socket.send_frame(frame, WSMsgType.TEXT)
        await socket.close()
        return socket

    app = web.Application(client_max_size=1 << 20)
    app.add_routes([web.post("/v1/responses", post), web.get("/v1/responses", upgrade)])
    async with TestServer(app) as server:
        yield str(server.make_url("/v1"))


_FAILED = b'{"type":"response.failed","response":{"id":"r"}}'


@pytest.mark.parametrize(
    ("kind", "status", "frames", "said"),
    [
        ("history", 429, (b"slow down",), "status 429: data: slow down"),
        ("history", 200, (_FAILED,), "not completed"),
        ("history", 200, (), "not completed: no event"),
        ("frames", 200, (_FAILED,), "not completed"),
        ("frames", 200, (), "the connection ended"),
    ],
)
async def test_an_answer_that_is_none_is_no_figure(
    kind: str, status: int, frames: tuple[bytes, ...], said: str
) -> None:
    async with _answering(status, *frames) as base:
        client = _client(kind, base)
        with pytest.raises(TurnFailed, match=said):
            await client.turn(Talk(Load(1).envelope()), [b'{"role":"user","content":"x"}'])
        await client.close()


@pytest.mark.parametrize("kind", ["history", "frames"])
async def test_a_server_that_is_not_there_is_no_figure(kind: str) -> None:
    client = _client(kind, "http://127.0.0.1:9/v1")
    with pytest.raises(TurnFailed):
        await client.turn(Talk(Load(1).envelope()), [])
    await client.close()
    await asyncio.sleep(0)
