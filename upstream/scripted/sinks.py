"""Where the steps of an answer go: a WebSocket, an event stream, or one JSON body."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import struct
from typing import TYPE_CHECKING, Any, Protocol

import orjson
from aiohttp import web

from wire import sse
from wire.errors import from_frame
from wire.events import ITEM_DONE, TERMINAL
from wire.split import Malformed, members

if TYPE_CHECKING:
    from collections.abc import Mapping

_LINGER_ZERO = struct.pack("ii", 1, 0)


class Sink(Protocol):
    """What an answer is written to."""

    async def text(self, data: bytes) -> None:
        """One event."""

    async def binary(self, data: bytes) -> None:
        """One binary frame."""

    async def close(self, code: int) -> None:
        """The closing handshake."""

    def reset(self) -> None:
        """TCP RST."""


def reset(transport: asyncio.BaseTransport | None) -> None:
    """End a connection by RST instead of FIN."""
    if not isinstance(transport, asyncio.Transport):
        return
    raw = transport.get_extra_info("socket")
    if raw is not None:
        with contextlib.suppress(OSError):
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_ZERO)
    transport.abort()


class FrameSink:
    """Frames of one WebSocket; `lane` is written into every event of a named lane."""

    def __init__(self, socket: web.WebSocketResponse, transport: asyncio.BaseTransport | None, lane: str) -> None:
        self._socket = socket
        self._transport = transport
        self._lane = lane

    async def text(self, data: bytes) -> None:
        """A text frame."""
        if self._lane:
            with contextlib.suppress(orjson.JSONDecodeError):
                data = orjson.dumps(orjson.loads(data) | {"stream_id": self._lane})
        await self._socket.send_str(data.decode("utf-8", "surrogateescape"))

    async def binary(self, data: bytes) -> None:
        """A binary frame."""
        await self._socket.send_bytes(data)

    async def close(self, code: int) -> None:
        """The closing handshake."""
        await self._socket.close(code=code)

    def reset(self) -> None:
        """TCP RST."""
        reset(self._transport)


class HttpSink:
    """An HTTP answer. The status waits for the first event, since an error before any is a real HTTP error."""

    def __init__(self, request: web.Request, headers: Mapping[str, str], *, stream: bool) -> None:
        self._request = request
        self._headers = headers
        self._stream = stream
        self._sequence = 0
        self._broken = False
        self._done: list[Any] = []
        self._terminal: dict[str, Any] | None = None
        self.response: web.StreamResponse | None = None

    async def text(self, data: bytes) -> None:
        """The next event; text that is no event is written as data without a type."""
        kind = _kind(data)
        if self.response is None and kind == "error":
            error = from_frame(json.loads(data))
            headers = {**self._headers, **error.headers, "content-type": "application/json"}
            self.response = web.Response(status=error.status, headers=headers, body=error.http_body())
        elif self._stream:
            await self._event(kind, data)
        else:
            self._remember(kind, data)

    async def _event(self, kind: str, data: bytes) -> None:
        if self.response is None:
            headers = {"cache-control": "no-cache", **self._headers, "content-type": sse.CONTENT_TYPE}
            self.response = web.StreamResponse(headers=headers)
            await self.response.prepare(self._request)
        if kind == "error" and "error" in members(data):
            data = from_frame(json.loads(data)).sse_data(self._sequence)
        self._sequence += 1
        await self.response.write(sse.encode(kind, data) if kind else b"data: " + data + b"\n\n")

    def _remember(self, kind: str, data: bytes) -> None:
        if kind == ITEM_DONE:
            self._done.append(json.loads(data)["item"])
        elif kind in TERMINAL:
            self._terminal = json.loads(data)

    async def binary(self, data: bytes) -> None:
        """HTTP has no binary frames."""

    async def close(self, code: int) -> None:
        """A break of the connection, whatever the code; what was written before it arrives."""
        del code
        self._broken = True
        if self._request.transport is not None:
            self._request.transport.close()

    def reset(self) -> None:
        """TCP RST."""
        self._broken = True
        reset(self._request.transport)

    async def finish(self) -> web.StreamResponse:
        """The response, complete; of a broken connection something that nobody will read."""
        if self.response is not None:
            if not self._broken and not isinstance(self.response, web.Response):
                await self.response.write_eof()
            return self.response
        if self._terminal is None:
            self.reset()
            return web.Response()
        if self._terminal["type"] == "error":
            error = from_frame(self._terminal)
            return web.Response(status=error.status, body=error.http_body(), content_type="application/json")
        body = self._terminal["response"]
        body["output"] = body["output"] or self._done
        return web.Response(body=orjson.dumps(body), headers={**self._headers, "content-type": "application/json"})


def _kind(data: bytes) -> str:
    """The event's type; empty for what is no event."""
    try:
        kind = json.loads(members(data).get("type", b'""'))
    except Malformed:
        return ""
    return kind if isinstance(kind, str) else ""
