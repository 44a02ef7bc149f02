"""Whole conversations, by every way that a client may keep them."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai import AsyncOpenAI, BadRequestError

from tests.upstream.helpers import (
    WEATHER,
    appended,
    check_events,
    echo,
    outputs,
    post,
    said,
    serving,
    stream,
    told,
    turn,
)
from tests.upstream.sockets import connected

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from upstream.app import Running

_STEPS = 30
_TOOLS: Any = [WEATHER]
_REQUEST: dict[str, Any] = {
    "model": "gpt-5.5",
    "store": False,
    "include": ["reasoning.encrypted_content"],
    "instructions": "Be of help.",
    "tools": [WEATHER],
}

_GO = {"role": "user", "content": "Go on."}


@pytest.fixture
async def long() -> AsyncIterator[Running]:
    """A server whose agent makes one call less than the long conversations have turns."""
    async with serving(tool_turns=_STEPS - 1) as running:
        yield running


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


async def test_two_hundred_turns_appended_to_one_response_are_the_same_context_as_one_full_request(
    http: aiohttp.ClientSession,
) -> None:
    steps = 200
    async with connected(http, tool_turns=steps - 1) as (server, socket):
        history: list[dict[str, Any]] = [{"role": "user", "content": "Begin."}]
        made = (await turn(socket, **(_REQUEST | {"input": history})))[-1]["response"]
        for step in range(1, steps):
            new = outputs(made, f"sunny {step}")
            history += [*echo(made), *new]
            made = told(await appended(socket, made["id"], input=new))
        status, in_full = await post(http, server.url, **(_REQUEST | {"input": history}))

    assert status == 200, in_full
    assert said(made) == said(in_full), "the digest of the context is part of what is said"
    assert said(made).startswith(f"Done after {steps - 1} tool results.")
    figures = {name: count for name, count in in_full["usage"].items() if name != "input_tokens_details"}
    assert figures.items() <= made["usage"].items()


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


# Conversations that are compacted

_MANAGED = _REQUEST | {"context_management": [{"type": "compaction", "compact_threshold": 1000}]}
_SAID = st.one_of(st.none(), st.integers(0, 120).map("words ".__mul__))
"""What a user says next to the outputs of calls, if anything."""


def _since_compaction(history: list[dict[str, Any]]) -> list[dict[str, Any]]:
    at = max((n for n, item in enumerate(history) if item.get("type") == "compaction"), default=0)
    return history[at:]


async def _four_ways(turns: list[tuple[str | None, int]]) -> list[list[dict[str, Any]]]:
    """The answers of each turn, over a WebSocket by id, and over HTTP in full, cut short, and by id."""
    answers: list[list[dict[str, Any]]] = []
    new: list[list[dict[str, Any]]] = [[{"role": "user", "content": "Begin."}] for _ in range(4)]
    histories: list[list[dict[str, Any]]] = [[] for _ in range(4)]
    ids: list[str | None] = [None] * 4
    async with aiohttp.ClientSession() as http, connected(http) as (server, socket):
        for words, size in turns:
            histories = [[*history, *more] for history, more in zip(histories, new, strict=True)]
            frame = _MANAGED | {"input": new[0], "previous_response_id": ids[0]}
            full = _MANAGED | {"input": histories[1]}
            cut = _MANAGED | {"input": _since_compaction(histories[2])}
            by_id = _MANAGED | {"input": new[3], "previous_response_id": ids[3], "store": True}
            made = [(await turn(socket, **frame))[-1]["response"]]
            made += [(await post(http, server.url, **body))[1] for body in (full, cut, by_id)]
            answers.append(made)
            ids = [one["id"] for one in made]
            histories = [[*history, *echo(one)] for history, one in zip(histories, made, strict=True)]
            spoken = [] if words is None else [{"role": "user", "content": words}]
            new = [[*outputs(one, "sunny " * size), *spoken] for one in made]
    return answers


@settings(max_examples=12, deadline=None)
@given(st.lists(st.tuples(_SAID, st.integers(0, 700)), min_size=2, max_size=7))
def test_compaction_and_what_follows_are_the_same_however_the_history_comes(
    turns: list[tuple[str | None, int]],
) -> None:
    for answers in asyncio.run(_four_ways(turns)):
        kinds = [[item["type"] for item in answer["output"]] for answer in answers]
        assert kinds == [kinds[0]] * 4
        assert len({said(answer) for answer in answers}) == 1, "the digest of the context is part of what is said"
        assert len({answer["usage"]["input_tokens"] for answer in answers}) == 1


async def test_a_compaction_is_told_before_the_answer(server: Running, http: aiohttp.ClientSession) -> None:
    events = await stream(http, server.url, **_MANAGED, input=[{"role": "assistant", "content": "words " * 1000}, _GO])

    check_events(events, open_responses=False)
    assert [event["type"] for event in events[2:5]] == [
        "response.output_item.added",
        "response.compaction.compacting",
        "response.output_item.done",
    ]
    compaction = events[4]["item"]
    assert (compaction["type"], events[3]["item_id"]) == ("compaction", compaction["id"])
    assert events[-1]["response"]["output"][0] == compaction
    assert events[-1]["response"]["usage"]["input_tokens"] < 500


async def test_below_the_threshold_nothing_is_compacted(server: Running, http: aiohttp.ClientSession) -> None:
    events = await stream(http, server.url, **_MANAGED, input=[_GO])

    assert "response.compaction.compacting" not in [event["type"] for event in events]


async def test_a_compacted_conversation_is_the_base_of_a_new_chain_on_both_transports(
    server: Running, http: aiohttp.ClientSession
) -> None:
    _, first = await post(http, server.url, model="sim", input="Begin.")
    async with http.post(
        f"{server.url}/v1/responses/compact", json={"model": "sim", "previous_response_id": first["id"]}
    ) as answer:
        output = (await answer.json())["output"]
    body = {"model": "sim", "input": [*output, _GO], "store": False}
    async with http.ws_connect(f"{server.url}/v1/responses") as socket:
        over_socket = (await turn(socket, **body))[-1]["response"]
        more = (await turn(socket, model="sim", input=[_GO], previous_response_id=over_socket["id"]))[-1]["response"]
    _, over_http = await post(http, server.url, **body)
    _, in_full = await post(http, server.url, **(body | {"input": [*output, _GO, *echo(over_http), _GO]}))

    assert said(over_socket) == said(over_http)
    assert said(more) == said(in_full)


async def test_a_window_shows_the_newest_or_refuses(http: aiohttp.ClientSession) -> None:
    body: dict[str, Any] = {"model": "sim", "input": [{"role": "user", "content": "x" * 400}, _GO]}
    async with serving(context_window=60) as server:
        status, refused = await post(http, server.url, **body)
        assert (status, refused["error"]["code"]) == (400, "context_length_exceeded")
        _, shown = await post(http, server.url, **body, truncation="auto")
        _, alone = await post(http, server.url, model="sim", input=[_GO])

    assert said(shown) == said(alone)
    assert shown["truncation"] == "auto"


async def test_two_calls_come_in_one_answer_where_both_sides_allow_it(http: aiohttp.ClientSession) -> None:
    tools = [WEATHER, {"type": "custom", "name": "search_notes"}]
    async with serving(parallel_calls="on") as server:
        events = await stream(http, server.url, model="sim", input="hi", tools=tools)
        _, one = await post(http, server.url, model="sim", input="hi", tools=tools, parallel_tool_calls=False)

    check_events(events, open_responses=False)
    made = events[-1]["response"]["output"]
    assert [item["type"] for item in made] == ["function_call", "custom_tool_call"]
    assert "response.custom_tool_call_input.done" in [event["type"] for event in events]
    assert [item["type"] for item in one["output"]] == ["function_call"]
