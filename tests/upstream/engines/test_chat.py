from __future__ import annotations

import asyncio
import json
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from tests.upstream.engines.prompts import PATCH, WEATHER, call, output, prompt, told
from tests.upstream.helpers import check_events, post, said, turn
from upstream.app import start
from upstream.engine import Accepted, Part, Prompt
from upstream.engines.chat import Chat
from upstream.settings import UpstreamSettings
from wire.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    import aiohttp

    Answering = Callable[["Endpoint", web.Request], Awaitable[web.StreamResponse]]

_HELLO: list[dict[str, Any]] = [
    {"choices": [{"delta": {"content": "Hel"}, "finish_reason": None}]},
    {"choices": [{"delta": {"content": "lo"}, "finish_reason": "stop"}]},
    {"choices": [], "usage": {"prompt_tokens": 12, "completion_tokens": 2}},
]


class Endpoint:
    """A stand-in for an endpoint: it remembers what it was asked and answers as told."""

    def __init__(self, answering: Answering) -> None:
        self.answering = answering
        self.url = ""
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.left = asyncio.Event()

    async def serve(self, request: web.Request) -> web.StreamResponse:
        self.bodies.append(await request.json())
        self.headers.append({name.lower(): value for name, value in request.headers.items()})
        try:
            return await self.answering(self, request)
        except (asyncio.CancelledError, ConnectionError):
            self.left.set()
            raise


@asynccontextmanager
async def endpoint(answering: Answering) -> AsyncIterator[Endpoint]:
    made = Endpoint(answering)
    app = web.Application()
    app.router.add_post("/v1/chat/completions", made.serve)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    made.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    yield made
    await runner.cleanup()


def streaming(*chunks: dict[str, Any], end: bytes = b"data: [DONE]\n\n") -> Answering:
    async def answer(_: Endpoint, request: web.Request) -> web.StreamResponse:
        reply = web.StreamResponse(headers={"content-type": "text/event-stream; charset=utf-8"})
        await reply.prepare(request)
        for chunk in chunks:
            await reply.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")
        await reply.write(end)
        return reply

    return answer


def answering(status: int, body: object, **headers: str) -> Answering:
    async def answer(_: Endpoint, __: web.Request) -> web.StreamResponse:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return web.json_response(body, status=status, headers=named)

    return answer


async def asked(engine: Chat, given: Prompt) -> list[Part]:
    try:
        async with aclosing(engine.generate(given)) as parts:
            return [part async for part in parts]
    finally:
        await engine.close()


async def test_an_answer_streams_and_begins_with_its_acceptance() -> None:
    async with endpoint(streaming(*_HELLO)) as stand_in:
        parts = await asked(Chat(stand_in.url), prompt("hi"))

    assert parts[0] == Accepted()
    assert told(parts[1:]) == [("message", "", "Hello")]
    assert stand_in.bodies[0]["messages"] == [{"role": "user", "content": "hi"}]
    assert stand_in.bodies[0]["model"] == "m"
    assert "authorization" not in stand_in.headers[0]


async def test_model_and_key_are_the_servers_when_it_has_them() -> None:
    async with endpoint(streaming(*_HELLO)) as stand_in:
        await asked(Chat(stand_in.url, model="other", key="sk-1"), prompt("hi"))

    assert stand_in.bodies[0]["model"] == "other"
    assert stand_in.headers[0]["authorization"] == "Bearer sk-1"


async def test_calls_go_both_ways() -> None:
    pieces = [
        {"index": 0, "id": "x", "function": {"name": "get_weather", "arguments": "{}"}},
        {"index": 1, "id": "y", "function": {"name": "apply_patch", "arguments": '{"input": "p"}'}},
    ]
    chunk: dict[str, Any] = {"choices": [{"delta": {"tool_calls": pieces}, "finish_reason": "tool_calls"}]}
    async with endpoint(streaming(chunk)) as stand_in:
        given = prompt("hi", call("call_1"), output("call_1"), tools=(WEATHER, PATCH))
        parts = await asked(Chat(stand_in.url), given)

    assert told(parts[1:]) == [("function_call", "get_weather", "{}"), ("custom_tool_call", "apply_patch", "p")]
    assert [one["role"] for one in stand_in.bodies[0]["messages"]] == ["user", "assistant", "tool"]


async def test_an_endpoint_that_does_not_stream_is_understood() -> None:
    whole = {"choices": [{"message": {"content": "yes"}, "finish_reason": "stop"}]}
    async with endpoint(answering(200, whole)) as stand_in:
        parts = await asked(Chat(stand_in.url), prompt("hi"))

    assert told(parts[1:]) == [("message", "", "yes")]


@pytest.mark.parametrize(
    ("status", "expected"), [(400, 400), (401, 502), (404, 404), (429, 429), (500, 502), (307, 502)]
)
async def test_a_refusal_is_an_error_before_any_part(status: int, expected: int) -> None:
    body = {"error": {"message": "why"}}
    async with endpoint(answering(status, body, retry_after="9", location="http://127.0.0.1:9/")) as stand_in:
        with pytest.raises(ApiError) as refused:
            await asked(Chat(stand_in.url), prompt("hi"))

    assert refused.value.status == expected
    assert refused.value.headers == ({"retry-after": "9"} if status == 429 else {})


async def test_an_endpoint_that_is_not_there_is_overloaded_to_the_client() -> None:
    async with endpoint(streaming()) as stand_in:
        pass
    with pytest.raises(ApiError) as refused:
        await asked(Chat(stand_in.url), prompt("hi"))

    assert (refused.value.status, refused.value.code) == (503, "server_is_overloaded")


async def test_a_connection_lost_within_the_answer_is_an_error() -> None:
    async def lost(_: Endpoint, request: web.Request) -> web.StreamResponse:
        reply = await streaming(_HELLO[0], end=b"")(_, request)
        assert request.transport is not None
        request.transport.abort()
        return reply

    async with endpoint(lost) as stand_in:
        with pytest.raises(ApiError) as broken:
            await asked(Chat(stand_in.url), prompt("hi"))

    assert broken.value.status == 502


async def test_leaving_early_closes_the_connection() -> None:
    async def endless(_: Endpoint, request: web.Request) -> web.StreamResponse:
        reply = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await reply.prepare(request)
        await reply.write(b"data: " + json.dumps(_HELLO[0]).encode() + b"\n\n")
        await asyncio.Event().wait()
        return reply

    async with endpoint(endless) as stand_in:
        engine = Chat(stand_in.url)
        parts = engine.generate(prompt("hi"))
        assert await anext(parts) == Accepted()
        await anext(parts)
        await parts.aclose()
        await asyncio.wait_for(stand_in.left.wait(), 10)
        await engine.close()


async def test_warming_asks_nothing_of_an_endpoint() -> None:
    async with endpoint(streaming(*_HELLO)) as stand_in:
        engine = Chat(stand_in.url)
        await engine.warm(prompt("hi"))
        await engine.close()

    assert stand_in.bodies == []
    assert engine.takes == "items"
    assert engine.accepts("any")


async def test_numbers_beyond_64_bits_are_passed() -> None:
    async with endpoint(streaming(*_HELLO)) as stand_in:
        given = prompt("hi", text={"format": {"type": "json_schema", "schema": {"maximum": 2**70}}})
        await asked(Chat(stand_in.url), given)

    assert stand_in.bodies[0]["response_format"]["json_schema"]["schema"] == {"maximum": 2**70}


async def test_a_server_in_front_of_an_endpoint_answers_on_both_transports(http: aiohttp.ClientSession) -> None:
    async with endpoint(streaming(*_HELLO)) as stand_in:
        server = await start(UpstreamSettings(port=0, engine=f"chat:{stand_in.url}", engine_model="small"))
        status, answer = await post(http, server.url, model="m", input="hi")
        async with http.ws_connect(f"{server.url}/v1/responses") as socket:
            await turn(socket, model="m", input="hi", generate=False)
            events = await turn(socket, model="m", input="hi")
        async with http.get(f"{server.url}/v1/models") as listed:
            models = [one["id"] for one in (await listed.json())["data"]]
        await server.close()

    check_events(events)
    assert (status, said(answer), said(events[-1]["response"])) == (200, "Hello", "Hello")
    assert (answer["usage"]["input_tokens"], answer["usage"]["output_tokens"]) == (12, 2)
    assert len(stand_in.bodies) == 2
    assert models == ["small"]


@pytest.mark.parametrize("streams", [True, False])
async def test_a_refusal_reaches_the_client_with_its_status_on_both_transports(
    http: aiohttp.ClientSession, *, streams: bool
) -> None:
    async with endpoint(answering(429, {}, retry_after="9")) as stand_in:
        server = await start(UpstreamSettings(port=0, engine=f"chat:{stand_in.url}"))
        body = {"model": "m", "input": "hi", "stream": streams}
        async with http.post(f"{server.url}/v1/responses", json=body) as answer:
            assert (answer.status, answer.headers["retry-after"]) == (429, "9")
            assert (await answer.json())["error"]["code"] == "rate_limit_exceeded"
        async with http.ws_connect(f"{server.url}/v1/responses") as socket:
            (frame,) = await turn(socket, model="m", input="hi")
        await server.close()

    assert (frame["type"], frame["status"], frame["headers"]["retry-after"]) == ("error", 429, "9")
