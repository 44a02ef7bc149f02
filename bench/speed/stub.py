"""An upstream that does nothing: it reads a turn without looking at it, and streams the same answer to each.

What is measured in front of it is the way there and back. The answer has `events` pieces, each written by itself,
`pace` of them a second; each carries the moment of its writing (`time.monotonic_ns`), so that a client on the same
machine can tell how long it was under way.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Awaitable, Callable

from aiohttp import WSMsgType, web

from bench.speed.serving import arguments, serve
from wire import sse

_ITEM = (
    b'{"id":"msg_%d","type":"message","status":"completed","role":"assistant",'
    b'"content":[{"type":"output_text","text":"Done.","annotations":[]}]}'
)
_RESPONSE = (
    b'{"id":"resp_%d","object":"response","created_at":0,"status":"%b","model":"sim","output":[%b],'
    b'"previous_response_id":null}'
)
DELTA = "response.output_text.delta"
STAMP = b'"sent":'
_LARGEST = 64 * 1024 * 1024

Write = Callable[[str, bytes], Awaitable[None]]
"""Takes an event's type and its JSON."""


class Stub:
    """The handlers."""

    def __init__(self, *, events: int, pace: float) -> None:
        self._events, self._pace = events, pace
        self._turns = itertools.count(1)

    def application(self) -> web.Application:
        """`/v1/responses`, by POST and by WebSocket."""
        app = web.Application(client_max_size=_LARGEST)
        app.add_routes([web.post("/v1/responses", self.post), web.get("/v1/responses", self.upgrade, allow_head=False)])
        return app

    async def post(self, request: web.Request) -> web.StreamResponse:
        """A turn over HTTP."""
        await request.read()
        response = web.StreamResponse(headers={"content-type": sse.CONTENT_TYPE})
        await response.prepare(request)
        async for kind, data in self.answer():
            await response.write(sse.encode(kind, data))
        await response.write_eof()
        return response

    async def upgrade(self, request: web.Request) -> web.StreamResponse:
        """Turns over a WebSocket, one after the other."""
        socket = web.WebSocketResponse(max_msg_size=_LARGEST, compress=False, decode_text=False)
        await socket.prepare(request)
        async for message in socket:
            if message.type is WSMsgType.TEXT:
                async for _, data in self.answer():
                    await socket.send_frame(data, WSMsgType.TEXT)
        return socket

    async def answer(self) -> AsyncIterator[tuple[str, bytes]]:
        """Types and JSON of the events of one answer."""
        turn = next(self._turns)
        yield _event("response.created", 0, b'"response":' + _RESPONSE % (turn, b"in_progress", b""))
        began = time.monotonic()
        for number in range(self._events):
            if self._pace and (early := began + number / self._pace - time.monotonic()) > 0:
                await asyncio.sleep(early)
            stamp = b'"output_index":0,"content_index":0,"item_id":"msg_%d","delta":"of code ",%b%d' % (
                turn,
                STAMP,
                time.monotonic_ns(),
            )
            yield _event(DELTA, number + 1, stamp)
        item = _ITEM % turn
        yield _event("response.output_item.done", self._events + 1, b'"output_index":0,"item":' + item)
        yield _event("response.completed", self._events + 2, b'"response":' + _RESPONSE % (turn, b"completed", item))


def _event(kind: str, number: int, members: bytes) -> tuple[str, bytes]:
    return kind, b'{"type":"%b","sequence_number":%d,%b}' % (kind.encode(), number, members)


def main() -> None:
    """Serve."""
    parser = arguments("An upstream that does nothing.")
    parser.add_argument("--events", type=int, default=20)
    parser.add_argument("--pace", type=float, default=0.0)
    given = parser.parse_args()

    async def make() -> web.Application:
        return Stub(events=given.events, pace=given.pace).application()

    serve("stub", make)


if __name__ == "__main__":
    main()
