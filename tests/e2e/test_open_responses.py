"""What the Open Responses compliance suite asks, by either dialect: over HTTP, over WebSockets, of the end of a stream."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
from openresponses_types import types as open_responses

from tests.e2e.sidecar import Server
from tests.upstream.helpers import TERMINAL, WEATHER, check_events, outputs

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.e2e.sidecar import Start

NOT_FOUND = "previous_response_not_found"


@pytest.fixture(scope="module", params=["openai", "open-responses"])
def dialect(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def base_url(start: Start, dialect: str) -> str:
    return Server(start, "--dialect", dialect, tool_turns=1).base_url


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


class Client:
    """A client of one connection; every event is checked against published models."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse[bool], dialect: str) -> None:
        self._socket, self._dialect = socket, dialect

    async def send(self, **body: Any) -> None:
        await self._socket.send_str(json.dumps({"type": "response.create", "model": "gpt-5.5", "store": False} | body))

    async def last(self) -> dict[str, Any]:
        """The terminal event of the next answer."""
        events: list[dict[str, Any]] = []
        while not events or events[-1]["type"] not in TERMINAL:
            events.append(await self._socket.receive_json(timeout=30))
        if events[-1]["type"] == "error":
            assert len(events) == 1, "a refusal comes alone"
            if self._dialect == "openai":  # which has errors without a code; the rest of the shape is the same
                events[0]["error"]["code"] = events[0]["error"]["code"] or "none"
            open_responses.WebSocketErrorEvent.model_validate(events[0])
        else:
            check_events(events)
            open_responses.ResponseResource.model_validate(events[-1]["response"])
        return events[-1]

    async def turn(self, **body: Any) -> dict[str, Any]:
        """The completed response."""
        await self.send(**body)
        last = await self.last()
        assert last["type"] == "response.completed", last
        response: dict[str, Any] = last["response"]
        return response

    async def refused(self, **body: Any) -> dict[str, Any]:
        """The error of a turn that cannot be; its socket stays open."""
        await self.send(**body)
        last = await self.last()
        assert last["type"] == "error", last
        assert 400 <= last["status"] < 600
        assert not self._socket.closed
        error: dict[str, Any] = last["error"]
        return error


@pytest.fixture
async def client(base_url: str, dialect: str, http: aiohttp.ClientSession) -> AsyncIterator[Client]:
    async with http.ws_connect(f"{base_url}/responses") as socket:
        yield Client(socket, dialect)


async def test_a_create_is_answered_by_valid_events_and_a_completed_terminal(client: Client) -> None:
    assert (await client.turn(input="Say hello."))["status"] == "completed"


async def test_two_creates_on_one_socket_each_have_their_own_terminal(client: Client) -> None:
    for text in ("first", "second"):
        await client.send(input=text)
    first, second = await client.last(), await client.last()

    assert first["type"] == second["type"] == "response.completed"
    assert first["response"]["id"] != second["response"]["id"]


async def test_what_is_not_stored_continues_by_its_id_on_the_same_socket(client: Client) -> None:
    first = await client.turn(input="The word is pear.")
    second = await client.turn(input="Which word?", previous_response_id=first["id"])

    assert second["previous_response_id"] == first["id"]
    assert second["usage"]["input_tokens_details"]["cached_tokens"] >= first["usage"]["input_tokens"]


async def test_on_a_new_socket_it_is_not_found_and_that_socket_still_serves(
    base_url: str, dialect: str, http: aiohttp.ClientSession, client: Client
) -> None:
    first = await client.turn(input="hi")
    async with http.ws_connect(f"{base_url}/responses") as socket:
        other = Client(socket, dialect)
        assert (await other.refused(input="x", previous_response_id=first["id"]))["code"] == NOT_FOUND
        assert (await other.turn(input="fresh"))["status"] == "completed"


async def test_an_id_that_nobody_has_is_not_found_and_the_socket_still_serves(client: Client) -> None:
    assert (await client.refused(input="x", previous_response_id="resp_nobody"))["code"] == NOT_FOUND
    assert (await client.turn(input="fresh"))["status"] == "completed"


async def test_an_output_of_an_unknown_call_fails_the_turn_and_evicts_the_parent(client: Client) -> None:
    first = await client.turn(input="hi", tools=[WEATHER])
    orphan = [{"type": "function_call_output", "call_id": "call_of_nobody", "output": "x"}]
    assert (await client.refused(input=orphan, previous_response_id=first["id"]))["param"] == "input"
    assert (await client.refused(input=outputs(first), previous_response_id=first["id"]))["code"] == NOT_FOUND


async def test_what_compaction_returns_is_the_base_of_a_new_chain(
    base_url: str, http: aiohttp.ClientSession, client: Client
) -> None:
    first = await client.turn(input="The word is pear.")
    history = [{"role": "user", "content": "The word is pear."}, *first["output"]]
    async with http.post(f"{base_url}/responses/compact", json={"model": "gpt-5.5", "input": history}) as answer:
        assert answer.status == 200
        compacted = await answer.json()
    assert compacted["object"] == "response.compaction"
    assert "compaction" in {item["type"] for item in compacted["output"]}

    base = await client.turn(input=[*compacted["output"], {"role": "user", "content": "Which word?"}])
    assert base["previous_response_id"] is None
    assert (await client.turn(input="And now?", previous_response_id=base["id"]))["status"] == "completed"


async def test_a_stream_ends_as_its_dialect_has_it(base_url: str, http: aiohttp.ClientSession, dialect: str) -> None:
    async with http.post(f"{base_url}/responses", json={"model": "m", "input": "hi", "stream": True}) as answer:
        raw = await answer.read()

    assert raw.endswith(b"\n\ndata: [DONE]\n\n") == (dialect == "open-responses")
    assert raw.count(b"[DONE]") == (dialect == "open-responses")


async def test_the_dialect_decides_whether_there_are_lanes(client: Client, dialect: str) -> None:
    await client.send(input="hi", stream_id="main")
    last = await client.last()

    if dialect == "openai":
        assert (last["type"], last["stream_id"]) == ("response.completed", "main")
    else:
        assert (last["type"], last["error"]["code"]) == ("error", "invalid_stream_id")


# Over HTTP

_PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYAAAAAYAAjCB0C8AAAAASUVORK5CYII="
)


def _message(role: str, text: str, **more: Any) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]} | more


async def _asked(http: aiohttp.ClientSession, url: str, path: str = "/responses", **body: Any) -> tuple[int, Any]:
    async with http.post(url + path, json=body) as answer:
        return answer.status, await answer.json()


@pytest.mark.parametrize(
    "items",
    [
        [_message("user", "Say hello.")],
        [_message("system", "You are a pirate."), _message("user", "Say hello.")],
        [
            _message("user", "Say hello.")
            | {"content": [{"type": "input_image", "image_url": _PIXEL, "detail": "auto"}]}
        ],
        [_message("user", "My name is Alice."), _message("assistant", "Hello Alice."), _message("user", "My name?")],
        [_message("user", "Think."), _message("assistant", "First.", phase="commentary"), _message("user", "Go on.")],
        [_message("user", "Think."), _message("assistant", "So.", phase="final_answer"), _message("user", "Go on.")],
    ],
    ids=["plain", "system prompt", "image", "several turns", "phase commentary", "phase final answer"],
)
async def test_a_plain_answer_is_valid_and_completed(
    base_url: str, http: aiohttp.ClientSession, items: list[dict[str, Any]]
) -> None:
    status, body = await _asked(http, base_url, model="gpt-5.5", input=items)

    assert status == 200, body
    open_responses.ResponseResource.model_validate(body)
    assert body["status"] == "completed"
    assert body["output"][-1]["type"] == "message"


async def test_a_tool_on_offer_is_called(base_url: str, http: aiohttp.ClientSession) -> None:
    _, body = await _asked(http, base_url, model="gpt-5.5", input="How is the weather in Oslo?", tools=[WEATHER])

    open_responses.ResponseResource.model_validate(body)
    (call,) = (item for item in body["output"] if item["type"] == "function_call")
    assert call["name"] == "get_weather"
    assert "city" in json.loads(call["arguments"])


async def test_every_event_of_a_stream_is_valid(base_url: str, http: aiohttp.ClientSession) -> None:
    async with http.post(
        f"{base_url}/responses", json={"model": "gpt-5.5", "input": "Count.", "stream": True}
    ) as answer:
        lines = (await answer.text()).splitlines()
    data = [line.removeprefix("data: ") for line in lines if line.startswith("data: ") and "[DONE]" not in line]
    events = [json.loads(one) for one in data]

    check_events(events)
    assert events[-1]["type"] == "response.completed"


async def test_compaction_answers_with_its_object_and_needs_a_model(base_url: str, http: aiohttp.ClientSession) -> None:
    items = [_message("user", "My name is Alice."), _message("assistant", "Hello Alice.")]
    status, body = await _asked(http, base_url, "/responses/compact", model="gpt-5.5", input=items)
    refused, error = await _asked(http, base_url, "/responses/compact", input=items)

    assert status == 200, body
    open_responses.CompactResource.model_validate(body)
    assert body["object"] == "response.compaction"
    assert body["output"][-1]["type"] == "compaction"
    assert (refused, error["error"]["param"]) == (400, "model")
