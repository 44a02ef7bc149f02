"""A client of the shipped server's WebSocket mode: turns one by one, and on lanes."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import aiohttp

from tests.upstream.helpers import TERMINAL, answer_of, serving, turn

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from upstream.app import Running

Socket = aiohttp.ClientWebSocketResponse[bool]


@asynccontextmanager
async def connected(
    http: aiohttp.ClientSession, *, autoping: bool = True, compress: int = 0, **settings: Any
) -> AsyncIterator[tuple[Running, Socket]]:
    """A server with these settings on a free port, and a WebSocket to it."""
    async with (
        serving(**settings) as server,
        http.ws_connect(f"{server.url}/v1/responses", autoping=autoping, compress=compress) as socket,
    ):
        yield server, socket


async def error_of(socket: Socket) -> dict[str, Any]:
    """The error frame that answers, whole as clients read it."""
    (frame,) = await answer_of(socket)
    assert frame["type"] == "error"
    assert isinstance(frame["status"], int)
    assert {"message", "type", "param", "code"} <= set(frame["error"])
    return frame


async def refusal(socket: Socket, **body: Any) -> dict[str, Any]:
    """The error frame that answers a `response.create`."""
    await socket.send_str(json.dumps({"type": "response.create"} | body))
    return await error_of(socket)


async def done(socket: Socket, **body: Any) -> dict[str, Any]:
    """The completed response that answers a `response.create`."""
    last = (await turn(socket, **body))[-1]
    assert last["type"] == "response.completed", last
    response: dict[str, Any] = last["response"]
    return response


async def send(socket: Socket, name: str | None, **body: Any) -> None:
    """A turn on a lane; None is the default lane."""
    tag = {} if name is None else {"stream_id": name}
    await socket.send_str(json.dumps({"type": "response.create", "model": "m", "store": False} | tag | body))


async def by_lane(socket: Socket, answers: int) -> dict[str | None, list[dict[str, Any]]]:
    """Events up to so many terminal ones, by the lane that they name."""
    found: dict[str | None, list[dict[str, Any]]] = {}
    while answers:
        event = await socket.receive_json(timeout=10)
        found.setdefault(event.pop("stream_id", None), []).append(event)
        answers -= event["type"] in TERMINAL
    return found


async def last_on(socket: Socket, name: str | None, **body: Any) -> dict[str, Any]:
    """The last event of a turn on a lane while no other runs."""
    await send(socket, name, **body)
    ((lane, events),) = (await by_lane(socket, 1)).items()
    assert lane == name
    return events[-1]


async def until_begun(socket: Socket, answers: int) -> list[dict[str, Any]]:
    """Events until so many answers have begun; none may end."""
    events: list[dict[str, Any]] = []
    while sum(event["type"] == "response.created" for event in events) < answers:
        events.append(await socket.receive_json(timeout=10))
        assert events[-1]["type"] not in TERMINAL, events[-1]
    return events
