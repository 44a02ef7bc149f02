"""The server in front of engines that are given tokens: what they are shown, turn by turn, by deltas and in full."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from tests.support.harmony import oracle
from tests.upstream.engines.token_servers import SglangServer, VllmServer, listening
from tests.upstream.helpers import WEATHER, check_events, echo, outputs, post, said, serving, turn
from upstream.engines.chains import unpacked
from upstream.tokens.vocabulary import load

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_CALL = " to=functions.get_weather<|channel|>commentary <|constrain|>json<|message|>{}<|call|>"
_ANSWER = "<|channel|>final<|message|>It rains — 雨.<|return|>"
_BODY: dict[str, Any] = {"model": "m", "tools": [WEATHER], "store": False}
_KEPT = {"include": ["reasoning.encrypted_content"]}


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as opened:
        yield opened


def _tokens(text: str) -> list[int]:
    found: list[int] = oracle().encode(text, allowed_special="all")
    return found


def _user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


async def _loop(socket: aiohttp.ClientWebSocketResponse[bool], engine: Any) -> list[dict[str, Any]]:
    """A call, its output and the answer, and a question after it."""
    engine.script.tokens = _tokens(_CALL)
    called = await turn(socket, **_BODY, input=[_user("How is the weather?")])
    check_events(called)
    engine.script.tokens = _tokens(_ANSWER)
    first = called[-1]["response"]
    answered = await turn(socket, **_BODY, input=outputs(first), previous_response_id=first["id"])
    second = answered[-1]["response"]
    last = await turn(socket, **_BODY, input=[_user("And now?")], previous_response_id=second["id"])
    return [first, second, last[-1]["response"]]


async def test_in_a_tool_loop_each_prompt_is_the_one_before_and_what_was_written_and_the_new_items(
    http: aiohttp.ClientSession,
) -> None:
    engine = VllmServer(window=10_000)
    async with listening(engine) as url, serving(engine=f"vllm:{url}") as server:
        async with http.ws_connect(f"{server.url}/v1/responses") as socket:
            first, second, _ = await _loop(socket, engine)
        history = [_user("How is the weather?"), *echo(first), *outputs(first), *echo(second), _user("And now?")]
        await post(http, server.url, **_BODY, input=history)

    assert first["output"][0]["name"] == "get_weather"
    assert said(second) == "It rains — 雨."
    prompts = [body["token_ids"] for body in engine.bodies]
    begun = [*prompts[0], *_tokens(_CALL)]
    assert prompts[1][: len(begun)] == begun
    begun = [*prompts[1], *_tokens(_ANSWER.replace("<|return|>", "<|end|>"))]
    assert prompts[2][: len(begun)] == begun
    assert prompts[3] == prompts[2], "the same conversation sent in full is the same prompt"


async def test_sglang_is_sent_only_what_it_does_not_hold(http: aiohttp.ClientSession) -> None:
    engine = SglangServer(incremental=True)
    async with listening(engine) as url, serving(engine=f"sglang:{url}") as server:
        async with http.ws_connect(f"{server.url}/v1/responses") as socket:
            first, second, _ = await _loop(socket, engine)
        history = [_user("How is the weather?"), *echo(first), *outputs(first), *echo(second), _user("And now?")]
        await post(http, server.url, **_BODY, input=history)

    sent = [len(body["input_ids"]) for body in engine.bodies]
    assert engine.prompts[3] == engine.prompts[2]
    assert sent[0] == len(engine.prompts[0])
    assert sent[2] < 20 < len(engine.prompts[2])


async def test_reasoning_that_the_client_can_give_back_is_kept_as_it_was_written(http: aiohttp.ClientSession) -> None:
    thought = "<|channel|>analysis<|message|>I need the weather.<|end|>"
    engine = VllmServer(window=10_000)
    async with (
        listening(engine) as url,
        serving(engine=f"vllm:{url}") as server,
        http.ws_connect(f"{server.url}/v1/responses") as socket,
    ):
        engine.script.tokens = _tokens(f"{thought}<|start|>assistant{_CALL}")
        first = (await turn(socket, **_BODY, **_KEPT, input=[_user("How?")]))[-1]["response"]
        engine.script.tokens = _tokens(_ANSWER)
        await turn(socket, **_BODY, **_KEPT, input=outputs(first), previous_response_id=first["id"])

    assert [item["type"] for item in first["output"]] == ["reasoning", "function_call"]
    assert first["usage"]["output_tokens_details"]["reasoning_tokens"] == len(_tokens("I need the weather."))
    prompts = [body["token_ids"] for body in engine.bodies]
    begun = [*prompts[0], *_tokens(f"{thought}<|start|>assistant{_CALL}")]
    assert prompts[1][: len(begun)] == begun


async def test_a_chatml_model_calls_in_parallel_and_is_shown_the_whole_prompt_by_what_is_new(
    http: aiohttp.ClientSession,
) -> None:
    call = '<tool_call>\n{"name": "get_weather", "arguments": {}}\n</tool_call>'
    engine, vocabulary = SglangServer(bos=_chatml("<|im_start|>")[0]), {"template": "chatml", "vocabulary": "qwen3"}
    async with listening(engine) as url, serving(engine=f"sglang:{url}", **vocabulary) as server:
        async with http.ws_connect(f"{server.url}/v1/responses") as socket:
            engine.script.tokens = _chatml(f"<think>\nhm\n</think>\n\n{call}\n{call}<|im_end|>")
            first = (await turn(socket, **_BODY, input=[_user("How is the weather?")]))[-1]["response"]
            engine.script.tokens = _chatml("It rains — 雨.<|im_end|>")
            parent = {"previous_response_id": first["id"]}
            second = (await turn(socket, **_BODY, input=outputs(first), **parent))[-1]["response"]
            parent = {"previous_response_id": second["id"]}
            await turn(socket, **_BODY, input=[_user("And now?")], **parent)
        history = [_user("How is the weather?"), *echo(first), *outputs(first), *echo(second), _user("And now?")]
        await post(http, server.url, **_BODY, input=history)

    assert [item["type"] for item in first["output"]] == ["reasoning", "function_call", "function_call"]
    assert said(second) == "It rains — 雨."
    assert engine.prompts[3] == engine.prompts[2], "the same conversation sent in full is the same prompt"
    assert len(engine.bodies[2]["input_ids"]) < 20 < len(engine.prompts[2])


def _chatml(text: str) -> list[int]:
    known = load("qwen3")
    pieces = re.split(r"(<\|im_\w+\|>|</?think>|</?tool_call>)", text)
    tags = ("<|im_", "<think", "</think", "<tool_call", "</tool_call")
    return [
        token
        for piece in pieces
        for token in ([known.special(piece)] if piece.startswith(tags) else unpacked(known.ordinary(piece)))
    ]


@pytest.mark.parametrize("kind", ["vllm", "sglang"])
async def test_what_an_engine_refuses_reaches_the_client_with_its_status(
    kind: str, http: aiohttp.ClientSession
) -> None:
    engine: VllmServer | SglangServer = VllmServer() if kind == "vllm" else SglangServer()
    engine.script.refusal = (429, {"error": {"message": "slow"}}, {"retry-after": "7"})
    async with listening(engine) as url, serving(engine=f"{kind}:{url}") as server:
        status, body = await post(http, server.url, **_BODY, input=[_user("Hi")])

    assert (status, body["error"]["code"]) == (429, "rate_limit_exceeded")


@pytest.mark.parametrize("kind", ["vllm", "sglang"])
async def test_a_client_that_leaves_is_left_by_the_engine(kind: str, http: aiohttp.ClientSession) -> None:
    engine: VllmServer | SglangServer = VllmServer(window=10_000) if kind == "vllm" else SglangServer()
    engine.script.tokens, engine.script.hangs = _tokens("<|channel|>final<|message|>Hm"), True
    async with listening(engine) as url, serving(engine=f"{kind}:{url}") as server:
        async with http.ws_connect(f"{server.url}/v1/responses") as socket:
            await socket.send_json({"type": "response.create", "input": [_user("Hi")], **_BODY})
            while (await socket.receive_json())["type"] != "response.output_text.delta":
                pass
        await asyncio.wait_for(engine.script.left.wait(), 10)


@pytest.mark.parametrize("kind", ["vllm", "sglang"])
async def test_a_warm_up_shows_the_engine_the_prompt_to_come(kind: str, http: aiohttp.ClientSession) -> None:
    engine: VllmServer | SglangServer = VllmServer(window=10_000) if kind == "vllm" else SglangServer()
    engine.script.tokens = _tokens(_ANSWER)
    async with (
        listening(engine) as url,
        serving(engine=f"{kind}:{url}") as server,
        http.ws_connect(f"{server.url}/v1/responses") as socket,
    ):
        warmed = (await turn(socket, **_BODY, input=[_user("Hi")], generate=False))[-1]["response"]
        await turn(socket, **_BODY, input=[_user("there")], previous_response_id=warmed["id"])

    name = "token_ids" if kind == "vllm" else "input_ids"
    first, second = (body[name] for body in engine.bodies)
    tail = _tokens("<|start|>assistant")
    assert warmed["output"] == []
    assert second[: len(first) - len(tail)] == first[: -len(tail)]
