"""Whole conversations, by every way that a client may keep them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from openai import AsyncOpenAI, BadRequestError

from tests.upstream.helpers import WEATHER, echo, outputs, post, said, turn
from upstream.app import Running, start
from upstream.settings import UpstreamSettings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import aiohttp

_STEPS = 30
_TOOLS: Any = [WEATHER]
_REQUEST: dict[str, Any] = {
    "model": "gpt-5.5",
    "store": False,
    "include": ["reasoning.encrypted_content"],
    "instructions": "Be of help.",
    "tools": [WEATHER],
}


@pytest.fixture
async def long() -> AsyncIterator[Running]:
    """A server whose agent makes one call less than the long conversations have turns."""
    running = await start(UpstreamSettings(port=0, tool_turns=_STEPS - 1))
    yield running
    await running.close()


@pytest.fixture
async def client(server: Running) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(api_key="k", base_url=f"{server.url}/v1", max_retries=0) as opened:
        yield opened


async def test_a_chain_of_deltas_is_the_same_context_as_one_full_request(
    long: Running, http: aiohttp.ClientSession
) -> None:
    history: list[dict[str, Any]] = [{"role": "user", "content": "Begin."}]
    new, previous = history, None
    by_delta: dict[str, Any] = {}
    async with http.ws_connect(f"{long.url}/v1/responses", max_msg_size=0) as socket:
        for step in range(_STEPS):
            request = _REQUEST | {"input": new, "previous_response_id": previous}
            by_delta = (await turn(socket, **request))[-1]["response"]
            status, in_full = await post(http, long.url, **(_REQUEST | {"input": history}))
            assert status == 200, in_full
            assert said(by_delta) == said(in_full)
            assert by_delta["usage"]["input_tokens"] == in_full["usage"]["input_tokens"]
            new = outputs(by_delta, f"sunny {step}")
            history = [*history, *echo(by_delta), *new]
            previous = by_delta["id"]

    assert said(by_delta).startswith(f"Done after {_STEPS - 1} tool results.")


async def test_a_chain_by_id_over_http_is_the_same_context_too(server: Running, http: aiohttp.ClientSession) -> None:
    kept = _REQUEST | {"store": True, "include": []}
    history: list[dict[str, Any]] = [{"role": "user", "content": "Begin."}]
    new, previous = history, None
    by_id: dict[str, Any] = {}
    for _ in range(6):
        _, by_id = await post(http, server.url, **(kept | {"input": new, "previous_response_id": previous}))
        _, in_full = await post(http, server.url, **(kept | {"input": history}))
        assert said(by_id) == said(in_full)
        assert by_id["usage"]["input_tokens"] == in_full["usage"]["input_tokens"]
        new = outputs(by_id)
        history = [*history, *echo(by_id), *new]
        previous = by_id["id"]

    assert said(by_id).startswith("Done after 5 tool results.")


async def test_references_stand_for_the_items_that_they_name(server: Running, http: aiohttp.ClientSession) -> None:
    kept = _REQUEST | {"store": True, "include": []}
    begin = {"role": "user", "content": "Begin."}
    _, first = await post(http, server.url, **(kept | {"input": [begin]}))
    references = [{"type": "item_reference", "id": item["id"]} for item in first["output"]]
    _, by_reference = await post(http, server.url, **(kept | {"input": [begin, *references, *outputs(first)]}))
    _, in_full = await post(http, server.url, **(kept | {"input": [begin, *echo(first), *outputs(first)]}))

    assert by_reference["usage"]["input_tokens"] == in_full["usage"]["input_tokens"]


async def test_two_branches_of_one_conversation_do_not_mix(server: Running, http: aiohttp.ClientSession) -> None:
    _, trunk = await post(http, server.url, model="sim", input="Begin.")
    left, right = [
        (await post(http, server.url, model="sim", input=text, previous_response_id=trunk["id"]))[1]
        for text in ("left", "right")
    ]
    _, left_again = await post(http, server.url, model="sim", input="left", previous_response_id=trunk["id"])

    assert said(left) != said(right)
    assert said(left) == said(left_again)


async def test_the_sdk_runs_an_agent_loop_of_five_tool_turns(client: AsyncOpenAI) -> None:
    history: list[Any] = [{"role": "user", "content": "How is the weather?"}]
    calls = 0
    while True:
        response = await client.responses.create(
            model="gpt-5.5", input=history, tools=_TOOLS, store=False, include=["reasoning.encrypted_content"]
        )
        history += response.output
        made = [item for item in response.output if item.type == "function_call"]
        if not made:
            break
        calls += len(made)
        for call in made:
            assert json.loads(call.arguments) == {"city": "deltawire"}
            history.append({"type": "function_call_output", "call_id": call.call_id, "output": "sunny"})

    assert calls == 5
    assert response.output_text.startswith("Done after 5 tool results.")
    assert str(response._request_id).startswith("req_")


async def test_the_sdk_runs_the_same_loop_over_streams(client: AsyncOpenAI) -> None:
    history: list[Any] = [{"role": "user", "content": "How is the weather?"}]
    calls = 0
    while True:
        async with client.responses.stream(
            model="gpt-5.5", input=history, tools=_TOOLS, store=False, include=["reasoning.encrypted_content"]
        ) as events:
            response = await events.get_final_response()
        history += [item.model_dump(exclude={"parsed_arguments"}, exclude_none=True) for item in response.output]
        made = [item for item in response.output if item.type == "function_call"]
        if not made:
            break
        calls += len(made)
        history += [{"type": "function_call_output", "call_id": call.call_id, "output": "sunny"} for call in made]

    assert calls == 5
    assert response.output_text.startswith("Done after 5 tool results.")


async def test_the_sdk_keeps_lists_and_deletes_responses(client: AsyncOpenAI) -> None:
    made = await client.responses.create(model="sim", input="hi")

    assert (await client.responses.retrieve(made.id)).output_text == made.output_text
    assert [item.type async for item in await client.responses.input_items.list(made.id)] == ["message"]
    await client.responses.delete(made.id)
    assert [model.id async for model in client.models.list()] == ["gpt-5.2", "gpt-5.5", "sim"]


async def test_the_sdk_gets_errors_as_its_own(client: AsyncOpenAI) -> None:
    with pytest.raises(BadRequestError) as caught:
        await client.responses.create(model="sim", input="x", previous_response_id="resp_none")

    assert caught.value.code == "previous_response_not_found"
    assert caught.value.param == "previous_response_id"
