"""A client of the Responses API for tests: turns over HTTP and WebSocket, nothing hidden."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from wire.events import TERMINAL
from wire.sse import Parser

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import aiohttp

Json = dict[str, Any]


def user(text: str) -> Json:
    """A message of the user."""
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}


def tool_output(call_id: str, output: str = "ok") -> Json:
    """What a tool gave."""
    return {"type": "function_call_output", "call_id": call_id, "output": output}


def create(items: list[Json] | str, **members: Any) -> Json:
    """A `response.create` frame."""
    return {"type": "response.create", "model": "m", "input": items} | members


async def read_turn(socket: aiohttp.ClientWebSocketResponse) -> list[Json]:
    """Events up to the terminal one."""
    events: list[Json] = []
    while not events or events[-1]["type"] not in TERMINAL:
        events.append(await socket.receive_json())
    return events


async def ws_turn(socket: aiohttp.ClientWebSocketResponse, frame: Json) -> list[Json]:
    """Send one frame, read its events."""
    await socket.send_str(json.dumps(frame))
    return await read_turn(socket)


async def sse_events(response: aiohttp.ClientResponse) -> AsyncIterator[tuple[str, Json]]:
    """Type and data of the events of a stream."""
    parser = Parser()
    async for chunk in response.content.iter_any():
        for event in parser.feed(chunk):
            yield event.event, json.loads(event.data)
