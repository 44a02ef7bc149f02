from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from tests.upstream.engines.prompts import WEATHER, prompt, said, told
from upstream.engine import Accepted, Part, Prompt, Stop, Usage
from upstream.engines.llamacpp import LlamaCpp
from wire.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_START, _END = 1, 2


class Server:
    """A stand-in for llama.cpp: a token is a character's number and 100, the control tokens are 1 and 2."""

    def __init__(self, *written: str) -> None:
        self.url = ""
        self.written = written
        self.slots = 2
        self.refusals: list[web.Response] = []
        """Answers to the next completions."""
        self.tokenized: list[str] = []
        self.bodies: list[dict[str, Any]] = []
        self.hangs = False
        self.left = asyncio.Event()

    async def props(self, _: web.Request) -> web.StreamResponse:
        return web.json_response({"total_slots": self.slots})

    async def tokenize(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.tokenized.append(body["content"])
        assert body["add_special"] is False
        special = {"<|im_start|>": [_START], "<|im_end|>": [_END]} if body["parse_special"] else {}
        return web.json_response({"tokens": special.get(body["content"]) or _ids(body["content"])})

    async def completion(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.bodies.append(body)
        if self.refusals:
            return self.refusals.pop()
        last = {"content": "", "stop": True, "stop_type": "eos", "tokens_evaluated": len(body["prompt"])}
        if not body["stream"]:
            return web.json_response(last | {"content": " x", "tokens": []})
        reply = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await reply.prepare(request)
        for piece in self.written:
            event = {"content": piece, "tokens": _written_ids(piece), "stop": False}
            await reply.write(b"data: " + json.dumps(event).encode() + b"\n\n")
        if self.hangs:
            try:
                await asyncio.Event().wait()
            finally:
                self.left.set()
        await reply.write(b"data: " + json.dumps(last | {"tokens": [_END]}).encode() + b"\n\n")
        return reply


def _ids(text: str) -> list[int]:
    return [100 + ord(character) for character in text]


def _written_ids(text: str) -> list[int]:
    """A model writes other tokens than a tokenizer would for the same text."""
    return [100_000 + ord(character) for character in text]


@asynccontextmanager
async def serving(*written: str) -> AsyncIterator[tuple[Server, LlamaCpp]]:
    made = Server(*written)
    app = web.Application()
    app.router.add_get("/props", made.props)
    app.router.add_post("/tokenize", made.tokenize)
    app.router.add_post("/completion", made.completion)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    engine = LlamaCpp(f"http://127.0.0.1:{runner.addresses[0][1]}")
    yield made, engine
    await engine.close()
    await runner.cleanup()


async def _asked(engine: LlamaCpp, given: Prompt) -> list[Part]:
    return [part async for part in engine.generate(given)]


async def test_a_prompt_goes_as_tokens_and_its_answer_streams() -> None:
    async with serving("Hel", "lo") as (server, engine):
        parts = await _asked(engine, prompt("hi", max_output_tokens=9, temperature=0.5))

    assert parts[0] == Accepted()
    assert told(parts[1:]) == [("message", "", "Hello")]
    body = server.bodies[0]
    assert body["prompt"] == [_START, *_ids("user\nhi"), _END, *_ids("\n"), _START, *_ids("assistant\n")]
    assert (body["id_slot"], body["n_predict"], body["temperature"]) == (0, 9, 0.5)
    assert body["stop"] == ["<|im_end|>"]
    assert parts[-1] == Stop(usage=Usage(len(body["prompt"])))
    assert engine.takes == "tokens"


async def test_only_new_items_are_tokenized_and_what_the_model_wrote_keeps_its_tokens() -> None:
    async with serving("Hel", "lo") as (server, engine):
        await _asked(engine, prompt("hi"))
        server.tokenized.clear()
        await _asked(engine, prompt("hi", said("assistant", "Hello"), "more"))

    assert server.tokenized == ["user\nmore"]
    first, second = (body["prompt"] for body in server.bodies)
    assert second[: len(first)] == first
    assert second[len(first) :][:6] == [*_written_ids("Hello"), _END]
    assert [body["id_slot"] for body in server.bodies] == [0, 0]
    assert [body["cache_prompt"] for body in server.bodies] == [False, True]


async def test_warming_reads_the_prompt_into_the_slot_of_the_turn_to_come() -> None:
    async with serving("x") as (server, engine):
        await engine.warm(prompt("hi"))
        await _asked(engine, prompt("hi", "more"))

    assert (server.bodies[0]["n_predict"], server.bodies[0]["stream"]) == (0, False)
    assert [body["id_slot"] for body in server.bodies] == [0, 0]


async def test_calls_are_items() -> None:
    written = '<tool_call>\n{"name": "get_weather", "arguments": {}}\n</tool_call>'
    async with serving(*written) as (_, engine):
        parts = await _asked(engine, prompt("hi", tools=(WEATHER,)))

    assert told(parts[1:]) == [("function_call", "get_weather", "{}")]


async def test_another_owner_gets_another_slot_and_nothing_of_what_was_read() -> None:
    async with serving("x") as (server, engine):
        await _asked(engine, prompt("hi", owner=b"a"))
        await _asked(engine, prompt("hi", owner=b"b"))

    assert [(body["id_slot"], body["cache_prompt"]) for body in server.bodies] == [(0, False), (1, False)]


@pytest.mark.parametrize(
    ("wanted", "schema"),
    [
        ({"type": "json_schema", "schema": {"type": "array"}}, {"type": "array"}),
        ({"type": "json_object"}, {"type": "object"}),
        ({"type": "text"}, None),
    ],
)
async def test_the_format_of_the_answer_is_enforced_by_the_engine(wanted: dict[str, Any], schema: object) -> None:
    async with serving("{}") as (server, engine):
        await _asked(engine, prompt("hi", text={"format": wanted}))

    assert server.bodies[0].get("json_schema") == schema


async def test_leaving_early_closes_the_connection_and_frees_the_slot() -> None:
    async with serving("x", "y") as (server, engine):
        server.hangs = True
        parts = engine.generate(prompt("hi"))
        while await anext(parts) == Accepted():
            pass
        await parts.aclose()
        await asyncio.wait_for(server.left.wait(), 10)
        server.hangs = False
        await _asked(engine, prompt("hi", "more"))

    assert [body["id_slot"] for body in server.bodies] == [0, 0]


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (503, '{"error": {"code": 503, "message": "Loading model"}}'),
        (200, 'data: {"error": {"code": 400, "message": "too long"}}\n\n'),
    ],
)
async def test_a_slot_whose_engine_read_nothing_is_not_taken_for_ones_own(status: int, body: str) -> None:
    async with serving("x") as (server, engine):
        server.slots = 1
        await _asked(engine, prompt("hi, this is a secret", owner=b"a"))
        kind = "text/event-stream" if status == 200 else "application/json"
        server.refusals = [web.Response(status=status, text=body, content_type=kind)]
        with pytest.raises(ApiError):
            await _asked(engine, prompt("hi, this is a guess", owner=b"b"))
        await _asked(engine, prompt("hi, this is a guess", owner=b"b"))
        await _asked(engine, prompt("hi, this is a guess", owner=b"b"))

    assert [body["id_slot"] for body in server.bodies] == [0] * 4
    assert [body["cache_prompt"] for body in server.bodies] == [False, False, False, True]


async def test_a_turn_waits_for_an_idle_slot_instead_of_going_to_one_unknown() -> None:
    async with serving("x") as (server, engine):
        server.slots = 1
        server.hangs = True
        first = engine.generate(prompt("hi", owner=b"a"))
        while await anext(first) == Accepted():
            pass
        second = asyncio.ensure_future(_asked(engine, prompt("hi", owner=b"b")))
        leaving = asyncio.ensure_future(_asked(engine, prompt("hi", owner=b"c")))
        for _ in range(20):
            await asyncio.sleep(0)
        leaving.cancel()
        server.hangs = False
        await first.aclose()
        await asyncio.wait_for(second, 10)
        await _asked(engine, prompt("hi", "more", owner=b"a"))

    assert [body["id_slot"] for body in server.bodies] == [0] * 3
    assert [body["cache_prompt"] for body in server.bodies] == [False] * 3


async def test_an_engine_that_is_not_there_is_overloaded_to_the_client() -> None:
    async with serving() as (_, engine):
        pass
    with pytest.raises(ApiError) as refused:
        await _asked(engine, prompt("hi"))
    await engine.close()

    assert (refused.value.status, refused.value.code) == (503, "server_is_overloaded")
