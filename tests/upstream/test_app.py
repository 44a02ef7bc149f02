from __future__ import annotations

import asyncio
import json
import threading
from typing import TYPE_CHECKING

import aiohttp
import pytest

from tests.upstream.helpers import answer_of, post, turn
from upstream.app import start
from upstream.settings import UpstreamSettings
from upstream.settling.ledger import LedgerFile
from wire.sse import Parser

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_CREATE = '{"type":"response.create","model":"m","input":"hi"}'


async def test_a_free_port_is_taken_and_told() -> None:
    server = await start(UpstreamSettings(port=0))

    assert server.url == f"http://127.0.0.1:{server.port}"
    await server.close()


async def test_an_unknown_engine_is_one_clear_error() -> None:
    with pytest.raises(ValueError, match="unknown engine 'none'"):
        await start(UpstreamSettings(port=0, engine="none"))


async def test_a_port_that_is_taken_is_an_error_and_leaves_nothing_behind() -> None:
    server = await start(UpstreamSettings(port=0))
    with pytest.raises(OSError, match="address already in use"):
        await start(UpstreamSettings(port=server.port))
    await server.close()


async def test_closing_ends_idle_sockets_with_1001_at_once(http: aiohttp.ClientSession) -> None:
    server = await start(UpstreamSettings(port=0, drain_seconds=60))
    socket = await http.ws_connect(f"{server.url}/v1/responses")
    closing = asyncio.ensure_future(server.close())
    message = await socket.receive(timeout=10)

    assert (message.type, message.data) == (aiohttp.WSMsgType.CLOSE, 1001)
    await asyncio.wait_for(closing, 10)


async def test_closing_lets_running_answers_end_and_takes_nothing_new(http: aiohttp.ClientSession) -> None:
    server = await start(UpstreamSettings(port=0, drain_seconds=60, tokens_per_second=100))
    url = f"{server.url}/v1/responses"
    async with (
        http.ws_connect(url) as socket,
        http.post(url, json={"model": "m", "input": "hi", "stream": True}) as streamed,
    ):
        await socket.send_str(_CREATE)
        assert (await socket.receive_json(timeout=10))["type"] == "response.created"
        closing = asyncio.ensure_future(server.close())
        await asyncio.sleep(0)
        events = Parser().feed(await streamed.read())
        assert json.loads(events[-1].data)["type"] == "response.completed"
        assert (await answer_of(socket))[-1]["type"] == "response.completed"
        assert (await socket.receive(timeout=10)).data == 1001
        await asyncio.wait_for(closing, 10)
    with pytest.raises(aiohttp.ClientConnectorError):
        await http.post(url, json={"model": "m", "input": "hi"})


async def test_a_kept_connection_gets_503_while_the_server_closes(http: aiohttp.ClientSession) -> None:
    server = await start(UpstreamSettings(port=0, drain_seconds=60, tokens_per_second=0.01))
    socket = await http.ws_connect(f"{server.url}/v1/responses")
    async with http.get(f"{server.url}/healthz") as answer:
        await answer.read()
    await socket.send_str(_CREATE)
    assert (await socket.receive_json(timeout=10))["type"] == "response.created"
    closing = asyncio.ensure_future(server.close())
    await asyncio.sleep(0)
    async with http.get(f"{server.url}/healthz") as answer:
        body = await answer.json()

    assert (answer.status, body["error"]["code"]) == (503, "service_unavailable")
    assert answer.headers["connection"] == "close"
    await socket.close()
    await asyncio.wait_for(closing, 10)


async def test_what_takes_longer_than_the_limit_is_cut(http: aiohttp.ClientSession) -> None:
    server = await start(UpstreamSettings(port=0, drain_seconds=0.05, tokens_per_second=0.01))
    socket = await http.ws_connect(f"{server.url}/v1/responses")
    await socket.send_str(_CREATE)
    assert (await socket.receive_json(timeout=10))["type"] == "response.created"

    await asyncio.wait_for(server.close(), 20)
    await socket.close()


async def test_servers_with_one_secret_read_each_others_reasoning(http: aiohttp.ClientSession) -> None:
    request = {"model": "gpt-5.5", "input": "hi", "store": False, "include": ["reasoning.encrypted_content"]}
    first = await start(UpstreamSettings(port=0, secret="shared"))
    second = await start(UpstreamSettings(port=0, secret="shared"))
    third = await start(UpstreamSettings(port=0))
    try:
        async with http.ws_connect(f"{first.url}/v1/responses") as socket:
            made = (await turn(socket, **request))[-1]["response"]["output"]
        again = request | {"input": [*made, {"role": "user", "content": "x"}]}
        for server, status in ((second, 200), (third, 400)):
            async with http.post(f"{server.url}/v1/responses", json=again) as answer:
                assert answer.status == status
    finally:
        for server in (first, second, third):
            await server.close()


async def test_turns_wait_while_the_ledger_is_full_and_none_is_dropped(
    http: aiohttp.ClientSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, append = tmp_path / "ledger", LedgerFile.append
    open_again = threading.Event()

    def append_later(file: LedgerFile, lines: Sequence[bytes]) -> None:
        assert open_again.wait(30)
        append(file, lines)

    monkeypatch.setattr(LedgerFile, "append", append_later)
    server = await start(UpstreamSettings(port=0, ledger=str(path), ledger_waiting=3, tool_turns=0))
    asked = [asyncio.ensure_future(post(http, server.url, model="m", input=str(number))) for number in range(8)]
    done, waiting = await asyncio.wait(asked, timeout=1)
    assert (len(done), len(waiting)) == (3, 5)

    open_again.set()
    answers = await asyncio.wait_for(asyncio.gather(*asked), 30)
    assert await server.close() == 0
    written = [json.loads(line)["response_id"] for line in path.read_bytes().splitlines()]
    assert sorted(written) == sorted(answer["id"] for _, answer in answers)


async def test_a_server_that_cannot_listen_lets_its_ledger_go(tmp_path: Path) -> None:
    server = await start(UpstreamSettings(port=0))
    with pytest.raises(OSError, match="address already in use"):
        await start(UpstreamSettings(port=server.port, ledger=str(tmp_path / "ledger")))
    await server.close()

    assert [task.get_name() for task in asyncio.all_tasks()] == [asyncio.current_task().get_name()]  # type: ignore[union-attr]  # there is one: this
