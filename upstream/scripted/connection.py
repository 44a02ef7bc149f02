"""One accepted WebSocket, and what a test may do to it from outside."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import TYPE_CHECKING

from aiohttp import WSMessage, WSMsgType, web

from upstream.scripted.context import Cache
from upstream.scripted.sinks import FrameSink, reset
from wire.split import Malformed, members

if TYPE_CHECKING:
    from upstream.scripted.player import Player
    from upstream.scripted.script import Accept


class Connection:
    """One WebSocket. Numbers count from 1."""

    def __init__(self, number: int, request: web.Request, accept: Accept, player: Player, *, lanes: bool) -> None:
        self.number = number
        self.headers = {name.lower(): value for name, value in request.headers.items()}
        self.closed = asyncio.Event()
        """Set when the connection has ended, from whichever side."""
        self.close_code: int | None = None
        self.cache = Cache()
        self.pings = 0
        self._request = request
        self._accept = accept
        self._player = player
        self._lanes = lanes
        self._running: set[str] = set()
        self._turns: dict[str, asyncio.Lock] = {}
        self._socket = web.WebSocketResponse(compress=accept.deflate, max_msg_size=0, autoping=False)

    async def serve(self) -> web.WebSocketResponse:
        """The life of the connection."""
        self._socket.headers.update(self._accept.headers)
        try:
            await self._socket.prepare(self._request)
            async with asyncio.TaskGroup() as group:
                tasks = []
                async for message in self._socket:
                    if message.type is WSMsgType.TEXT:
                        tasks.append(group.create_task(self._turn(message.data.encode())))
                    else:
                        await self._control(message)
                for task in tasks:
                    task.cancel()
        finally:
            self.close_code = self._socket.close_code
            self.closed.set()
        return self._socket

    async def _control(self, message: WSMessage) -> None:
        if message.type is WSMsgType.PING:
            self.pings += 1
            if self._accept.answer_pings:
                with contextlib.suppress(ConnectionError):
                    await self._socket.pong(message.data)
        elif message.type is not WSMsgType.PONG:
            self._player.violation(f"connection {self.number}: a frame that is no text")

    async def _turn(self, frame: bytes) -> None:
        """One frame, after those before it on its lane. A second one at a time is queued, and noted."""
        turn = self._player.receive("ws", self.number, frame, self.headers, len(frame))
        lane = _lane(frame) if self._lanes else ""
        if lane in self._running:
            self._player.violation(f"turn {turn.number}: created while another one runs on connection {self.number}")
        async with self._turns.setdefault(lane, asyncio.Lock()):
            self._running.add(lane)
            try:
                play = await self._player.decide(turn, self.cache)
                sink = FrameSink(self._socket, self._request.transport, lane)
                await self._player.play(turn, play, self.cache, sink)
            finally:
                self._running.discard(lane)

    async def send(self, frame: bytes) -> None:
        """A text frame that no turn asked for."""
        await self._socket.send_str(frame.decode())

    async def close(self, code: int = 1000) -> None:
        """The closing handshake, begun by this side."""
        await self._socket.close(code=code)

    def reset(self) -> None:
        """TCP RST."""
        reset(self._request.transport)


def _lane(frame: bytes) -> str:
    try:
        name = json.loads(members(frame).get("stream_id", b'""'))
    except Malformed:
        return ""
    return name if isinstance(name, str) else ""
