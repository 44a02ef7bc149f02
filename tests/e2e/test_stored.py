"""Stored responses that outlive their server and are those of its replicas: servers on one real Redis."""

from __future__ import annotations

import asyncio
import json
import time
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from tests.e2e.sidecar import Server
from tests.support import http as plain
from tests.upstream.helpers import answer_of, outputs, post, said, serving, turn

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.e2e.sidecar import Start
    from tests.support.redis import RedisServer
    from upstream.app import Running

SECRET = "0123456789abcdef" * 4
_WEATHER = {"type": "function", "name": "get_weather", "parameters": {"type": "object", "properties": {}}}
_ASKED: dict[str, Any] = {"model": "gpt-5.5", "tools": [_WEATHER], "include": ["reasoning.encrypted_content"]}
_NOTHING = 'deltawire_upstream_settling_waiting{sink="store"} 0.0'
pytestmark = pytest.mark.redis


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(headers={"authorization": "Bearer k"}) as made:
        yield made


def _replica(redis: RedisServer, **settings: Any) -> Any:
    return serving(**{"store": redis.url, "secret": SECRET, "tool_turns": 1, "admin_host": "127.0.0.1"} | settings)


async def _get(http: aiohttp.ClientSession, server: Running, path: str) -> tuple[int, dict[str, Any]]:
    async with http.get(f"{server.url}/v1/responses/{path}") as answer:
        return answer.status, await answer.json()


async def _settled(http: aiohttp.ClientSession, server: Running) -> None:
    """All that this server made is in Redis."""
    async with asyncio.timeout(20):
        while True:
            async with http.get(f"{server.admin_url}/metrics") as answer:
                if _NOTHING in await answer.text():
                    return
            await asyncio.sleep(0.01)


async def test_replicas_take_turns_in_one_conversation_as_one_server_would(
    http: aiohttp.ClientSession, fresh_redis: RedisServer
) -> None:
    async with serving(secret=SECRET, tool_turns=1) as alone:
        expected = await _conversation(http, [alone], None)
    async with _replica(fresh_redis) as one, _replica(fresh_redis) as other:
        assert await _conversation(http, [one, other], _settled) == expected


async def _conversation(http: aiohttp.ClientSession, servers: list[Running], settled: Any) -> list[Any]:
    """Texts and tokens of a conversation that goes from server to server, each turn by its parent's id alone."""
    told: list[Any] = []
    previous: str | None = None
    given: Any = "what is the weather"
    for number in range(8):
        server = servers[number % len(servers)]
        status, response = await post(http, server.url, **_ASKED, input=given, previous_response_id=previous)
        assert status == 200, response
        tokens = {kind: response["usage"][f"{kind}_tokens"] for kind in ("input", "output")}
        told.append((said(response), [item["type"] for item in response["output"]], tokens))
        previous, given = response["id"], outputs(response) or f"and then {number}"
        if settled is not None:
            await settled(http, server)
    return told


async def test_over_a_socket_a_response_of_another_replica_is_continued(
    http: aiohttp.ClientSession, fresh_redis: RedisServer
) -> None:
    async with _replica(fresh_redis, tool_turns=0) as one, _replica(fresh_redis, tool_turns=0) as other:
        _, first = await post(http, one.url, model="m", input="hello " * 400)
        await _settled(http, one)
        async with http.ws_connect(f"{other.url}/v1/responses") as socket:
            frame = {"model": "m", "input": "again", "previous_response_id": first["id"]}
            second = (await turn(socket, **frame))[-1]["response"]
            assert second["usage"]["input_tokens"] > first["usage"]["input_tokens"] > 400
            # It has left memory for nobody: another lane finds it at once, in the order of its frames.
            await socket.send_str(json.dumps({"type": "response.create", "stream_id": "x", **frame}))
            assert (await answer_of(socket))[-1]["type"] == "response.completed"
            failed = await turn(socket, model="m", input="x", previous_response_id="resp_nobody")
            assert failed[-1]["error"]["code"] == "previous_response_not_found"


async def test_responses_are_retrieved_listed_and_deleted_at_any_replica(
    http: aiohttp.ClientSession, fresh_redis: RedisServer
) -> None:
    async with _replica(fresh_redis) as one, _replica(fresh_redis) as other:
        _, made = await post(http, one.url, model="m", input="hello")
        await _settled(http, one)
        assert await _get(http, other, made["id"]) == (200, made)
        listed = (await _get(http, other, f"{made['id']}/input_items"))[1]["data"]
        assert [item["content"] for item in listed] == [[{"type": "input_text", "text": "hello"}]]
        async with http.delete(f"{other.url}/v1/responses/{made['id']}") as answer:
            assert answer.status == 200
        assert (await _get(http, other, made["id"]))[0] == 404
        await _settled(http, other)
    async with _replica(fresh_redis) as third:
        assert (await _get(http, third, made["id"]))[0] == 404
        assert (await post(http, third.url, model="m", input="x", previous_response_id=made["id"]))[0] == 400


async def test_items_that_another_replica_made_can_be_referred_to(
    http: aiohttp.ClientSession, fresh_redis: RedisServer
) -> None:
    async with _replica(fresh_redis, tool_turns=0) as one, _replica(fresh_redis, tool_turns=0) as other:
        _, made = await post(http, one.url, model="gpt-5.5", input="hello")
        await _settled(http, one)
        names = [{"type": "item_reference", "id": item["id"]} for item in made["output"]]
        asked = {"model": "gpt-5.5", "input": [*names, {"role": "user", "content": "go on"}]}
        status, at_home = await post(http, one.url, **asked)
        assert status == 200
        status, away = await post(http, other.url, **asked)
        assert (status, away["usage"]["input_tokens"]) == (200, at_home["usage"]["input_tokens"])
        echoed = {"model": "gpt-5.5", "input": [*made["output"], {"role": "user", "content": "go on"}]}
        counted = [(await post(http, server.url, **echoed))[1]["usage"]["input_tokens"] for server in (one, other)]
        assert counted[0] == counted[1], "reasoning without its text is completed from the store"


async def test_what_another_key_made_is_what_nobody_has(http: aiohttp.ClientSession, fresh_redis: RedisServer) -> None:
    async with _replica(fresh_redis) as one, _replica(fresh_redis) as other:
        _, made = await post(http, one.url, model="m", input="hello")
        await _settled(http, one)
        async with aiohttp.ClientSession(headers={"authorization": "Bearer another"}) as stranger:
            theirs = await _get(stranger, other, made["id"])
            nobodys = await _get(stranger, other, made["id"][::-1])
            assert theirs[0] == nobodys[0] == 404
            assert theirs[1]["error"] | {"message": ""} == nobodys[1]["error"] | {"message": ""}
            reference = [{"type": "item_reference", "id": made["output"][0]["id"]}]
            assert (await post(stranger, other.url, model="m", input=reference))[0] == 404


async def test_without_redis_every_turn_is_answered_from_memory(
    http: aiohttp.ClientSession, fresh_redis: RedisServer
) -> None:
    async with _replica(fresh_redis, tool_turns=0) as server:
        _, first = await post(http, server.url, model="m", input="hello")
        fresh_redis.stop()
        for _ in range(3):
            status, first = await post(http, server.url, model="m", input="x", previous_response_id=first["id"])
            assert status == 200
        assert (await _get(http, server, first["id"]))[0] == 200
        assert (await _get(http, server, "resp_nobody"))[0] == 404
        fresh_redis.start()


def _until_waits_nothing(server: Server) -> None:
    admin = server.command.url("upstream-admin")
    deadline = time.monotonic() + plain.SECONDS
    while _NOTHING.encode() not in plain.get(f"{admin}/metrics").body:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_server_that_is_stopped_and_one_that_is_killed_leave_their_responses(
    start: Start, fresh_redis: RedisServer
) -> None:
    options = ("--store", fresh_redis.url, "--secret", SECRET, "--admin", "127.0.0.1:0")
    previous: str | None = None
    tokens = 0
    for end in ("stop", "kill", "none"):
        server = Server(start, *options, tool_turns=0)
        for _ in range(3):
            body = json.dumps({"model": "m", "input": "hello", "previous_response_id": previous}).encode()
            answer = plain.post(f"{server.base_url}/responses", body)
            assert answer.status == 200, answer.body
            previous, tokens = answer.json()["id"], answer.json()["usage"]["input_tokens"]
        if end == "kill":
            _until_waits_nothing(server)
            server.command.process.kill()
        else:
            assert server.command.stop() == 0
    assert tokens > 9 * 4


def test_a_store_without_a_secret_is_one_clear_error(start: Start) -> None:
    command = start("upstream", "--store", "redis://127.0.0.1:1", "--listen", "127.0.0.1:0")
    command.process.wait(30)

    assert command.process.returncode == 2
    assert "deltawire upstream: --secret is needed with --store" in command.stderr
