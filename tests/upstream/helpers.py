"""What several tests of the shipped server use: requests, events, and a client of each transport."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import aiohttp
from openai.types.responses import ResponseStreamEvent
from openresponses_types import types as open_responses
from pydantic import BaseModel, TypeAdapter

from telemetry.server_metrics import ServerMetrics
from upstream.app import Running, start
from upstream.kept.recall import Recall
from upstream.settings import UpstreamSettings
from upstream.settling.books import Books
from upstream.stages.items import Item, read_items
from upstream.stages.resolve import Offer
from upstream.stages.seal import Sealer
from upstream.turns.asked import asked
from upstream.turns.request import read_request
from upstream.turns.run import Server
from wire.sse import Parser

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from upstream.engine import Engine
    from upstream.turns.admit import Admission

SEALER = Sealer("a key for tests")
TERMINAL = {"response.completed", "response.incomplete", "response.failed", "response.done", "error"}
WEATHER = {
    "type": "function",
    "name": "get_weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
ASKED = asked(read_request({"model": b'"m"'}), Offer())
"""What the smallest request asks for beside its input."""
_SDK: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
_OPEN = {
    model.model_fields["type"].annotation: model
    for name, model in vars(open_responses).items()
    if name.endswith("StreamingEvent") and issubclass(model, BaseModel)
}
_OPEN_BY_NAME: dict[str, type[BaseModel]] = {next(iter(kind)).value: model for kind, model in _OPEN.items()}


@asynccontextmanager
async def serving(**settings: Any) -> AsyncIterator[Running]:
    """A server with these settings on a free port."""
    running = await start(UpstreamSettings(port=0, **settings))
    try:
        yield running
    finally:
        await running.close()


def server_of(engine: Engine, admission: Admission) -> Server:
    """What turns share, with books that are kept nowhere but in metrics."""
    books, recall = Books(ServerMetrics(), admission.gate.holder), Recall(admission.store, admission.reader.empty)
    return Server(engine, admission, books, recall, lambda: 9)


def items(*values: dict[str, Any] | str) -> list[Item]:
    """Items as a request would bring them; a string is a user message."""
    full = [{"role": "user", "content": value} if isinstance(value, str) else value for value in values]
    return read_items(json.dumps(full).encode(), SEALER)


def members(**values: Any) -> dict[str, bytes]:
    """Members of a request."""
    return {name: json.dumps(value).encode() for name, value in values.items()}


def check_events(events: list[dict[str, Any]], *, open_responses: bool = True) -> None:
    """Every event fits the SDK's models and those of Open Responses (no custom tools there), numbered from 0."""
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    for event in events:
        _SDK.validate_python(event, strict=False)
        if open_responses:
            _OPEN_BY_NAME[event["type"]].model_validate(event)


def without_ids(value: Any) -> Any:
    """The value without what is made anew for each response: ids, seals and times."""
    made = {"id", "item_id", "call_id", "encrypted_content", "created_at", "completed_at", "previous_response_id"}
    if isinstance(value, dict):
        return {name: without_ids(member) for name, member in value.items() if name not in made}
    return [without_ids(member) for member in value] if isinstance(value, list) else value


async def post(http: aiohttp.ClientSession, url: str, **body: Any) -> tuple[int, dict[str, Any]]:
    """Status and JSON of a plain request."""
    async with http.post(f"{url}/v1/responses", json=body) as answer:
        return answer.status, await answer.json()


async def stream(http: aiohttp.ClientSession, url: str, **body: Any) -> list[dict[str, Any]]:
    """Events of a streamed request."""
    async with http.post(f"{url}/v1/responses", json=body | {"stream": True}) as answer:
        assert answer.status == 200, await answer.text()
        assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
        raw = await answer.read()
    found = Parser().feed(raw)
    events: list[dict[str, Any]] = [json.loads(event.data) for event in found]
    assert [event.event for event in found] == [event["type"] for event in events]
    return events


async def turn(socket: aiohttp.ClientWebSocketResponse[bool], **body: Any) -> list[dict[str, Any]]:
    """Events of one `response.create`."""
    await socket.send_str(json.dumps({"type": "response.create"} | body))
    return await answer_of(socket)


async def appended(
    socket: aiohttp.ClientWebSocketResponse[bool], response_id: str, **body: Any
) -> list[dict[str, Any]]:
    """Events of one `response.append`."""
    await socket.send_str(json.dumps({"type": "response.append", "response_id": response_id} | body))
    return await answer_of(socket)


async def answer_of(socket: aiohttp.ClientWebSocketResponse[bool]) -> list[dict[str, Any]]:
    """Events up to the next terminal one."""
    events: list[dict[str, Any]] = []
    while not events or events[-1]["type"] not in TERMINAL:
        message = await socket.receive(timeout=10)
        assert message.type is aiohttp.WSMsgType.TEXT, message
        events.append(json.loads(message.data))
    return events


def told(events: list[dict[str, Any]]) -> dict[str, Any]:
    """What the events of a resumed turn tell of its response: the items one by one, the rest at the end."""
    output = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    response: dict[str, Any] = events[-1]["response"]
    return response | {"output": output}


def echo(response: dict[str, Any]) -> list[dict[str, Any]]:
    """The output as a stateless client sends it back."""
    return list(response["output"])


def outputs(response: dict[str, Any], text: str = "ok") -> list[dict[str, Any]]:
    """An output for each call of the response."""
    return [
        {"type": "function_call_output", "call_id": item["call_id"], "output": text}
        for item in response["output"]
        if item["type"] == "function_call"
    ]


def said(response: dict[str, Any]) -> str:
    """Text of the answer."""
    return "".join(part["text"] for item in response["output"] if item["type"] == "message" for part in item["content"])
