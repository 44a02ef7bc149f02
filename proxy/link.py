"""One upstream WebSocket: a reader for its whole life, pings, and the frames of the turn in flight."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from time import monotonic
from typing import TYPE_CHECKING

import aiohttp
from aiohttp import WSMsgType

from proxy.frame import SentEnvelope
from wire.errors import CONNECTION_LIMIT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from proxy.pool import Slot

MAX_BUFFERED = 8 * 1024 * 1024
"""Bytes of unread frames beyond which the link is not read: a slow client slows the upstream, not our memory."""
GOING_AWAY = 1001
"""The close code with which a link is left (RFC 6455, 7.4.1)."""
TOO_BIG = aiohttp.WSCloseCode.MESSAGE_TOO_BIG
VERIFY_LIMIT = 5.0
"""Seconds that a link gets to answer the ping that precedes its use."""
_CLOSE_WAIT = 2.0
_CONNECTION_LIMIT = CONNECTION_LIMIT.encode()


class LinkEnded(Exception):
    """The link is gone. `cause` is one of the documented ends; `written` says whether the turn's frame went out."""

    def __init__(self, cause: str, *, written: bool) -> None:
        super().__init__(cause)
        self.cause = cause
        self.written = written


class Link:
    """An open WebSocket in a slot. `on_end` is called once with the cause when it ends.

    `nonce` is what its server binds digests of the context to, empty where it compares none.
    `appends` says whether its server resumes responses; `asked` is how its latest response was asked for, where known.
    """

    def __init__(
        self,
        slot: Slot,
        socket: aiohttp.ClientWebSocketResponse[bool],
        *,
        envelope: bool,
        appends: bool = False,
        nonce: bytes = b"",
        on_end: Callable[[Link, str], None],
    ) -> None:
        self.slot = slot
        self.sent = SentEnvelope() if envelope else None
        self.appends = appends
        self.nonce = nonce
        self.asked: Mapping[str, bytes] | None = None
        self.ended = ""
        self.heard = monotonic()
        self.pings: asyncio.Task[None] | None = None
        self._socket = socket
        self._on_end = on_end
        self._frames: deque[bytes] = deque()
        self._buffered = 0
        self._arrived = asyncio.Event()
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = 0.0
        self._room = asyncio.Event()
        self._room.set()
        self._pong = asyncio.Event()
        self._in_turn = self._sending = False

    def __repr__(self) -> str:
        return f"<Link {self.slot.id} {self.ended or ('in a turn' if self._in_turn else 'free')}>"

    async def read(self) -> None:
        """Read until the link ends; the reader's task lives as long as the link."""
        cause = "aborted"
        try:
            while not self.ended:
                message = await self._socket.receive()
                self.heard = monotonic()
                found = await self._message(message)
                if found is not None:
                    cause = found
                    break
        finally:
            self.end(cause)
            await self.close(GOING_AWAY)

    async def _message(self, message: aiohttp.WSMessage | aiohttp.http_websocket.WSMessageTextBytes) -> str | None:
        """Handle one message; the cause when it ends the link."""
        if message.type is WSMsgType.TEXT:
            if not self._in_turn:
                return "connection_limit" if _CONNECTION_LIMIT in message.data else "out_of_order"
            self._frames.append(message.data)
            self._buffered += len(message.data)
            self._arrived.set()
            if self._buffered > MAX_BUFFERED:
                self._room.clear()
                await self._room.wait()
        elif message.type is WSMsgType.PING:
            await self._socket.pong(message.data)
        elif message.type is WSMsgType.PONG:
            self._pong.set()
        elif message.type is WSMsgType.BINARY:
            return "out_of_order"
        elif message.type is WSMsgType.ERROR:
            return "oversized" if self._socket.close_code == TOO_BIG else "aborted"
        elif self._socket.close_code in {None, aiohttp.WSCloseCode.ABNORMAL_CLOSURE}:
            return "aborted"
        else:
            return "too_large" if self._socket.close_code == TOO_BIG else "closed_by_upstream"
        return None

    async def keep_alive(self, interval: float) -> None:
        """Ping when nothing was heard for `interval` seconds; no pong within another ends the link."""
        unsent = 0
        while not self.ended:
            await asyncio.sleep(max(0.05, self.heard + interval - monotonic()))
            before, unsent = unsent, self._unsent() if self._sending else 0
            if not self._room.is_set() or before != unsent:
                # Not read at the moment, so that nothing can be heard; or a large frame is on its way, and goes on.
                self.heard = monotonic()
            elif monotonic() - self.heard >= interval:
                await self.verify(interval)

    async def checked(self, now: float, interval: float) -> None:
        """Ask first when nothing was heard for `interval` seconds; a link that stays silent ends."""
        if now - self.heard <= interval:
            return
        try:
            await self.verify(min(interval, VERIFY_LIMIT))
        except BaseException:
            self.end("client_gone")
            raise

    async def verify(self, limit: float) -> bool:
        """Whether the other end answers a ping within `limit` seconds; if not, the link ends."""
        if self.ended:
            return False
        self._pong.clear()
        try:
            async with asyncio.timeout(limit):
                await self._socket.ping()
                await self._pong.wait()
        except (TimeoutError, OSError, aiohttp.ClientError):
            self.end("ping_timeout")
        return not self.ended

    async def send(self, frame: bytes) -> None:
        """Begin a turn. Raises `LinkEnded`, which says whether the upstream may have the frame."""
        if self._socket.closed:
            self.end("aborted")
        if self.ended:
            raise LinkEnded(self.ended, written=False)
        self._in_turn = self._sending = True
        try:
            await self._socket.send_frame(frame, WSMsgType.TEXT)
        except (OSError, aiohttp.ClientError):
            self.end("write_failed")
            raise LinkEnded("write_failed", written=True) from None
        finally:
            self._sending = False

    def _unsent(self) -> int:
        """Bytes that wait to be written."""
        connection = self._socket._response.connection  # noqa: SLF001 - there is no public way to it
        transport = connection.transport if connection is not None else None
        return transport.get_write_buffer_size() if isinstance(transport, asyncio.WriteTransport) else 0

    def arrived(self) -> bytes | None:
        """The next frame of the turn, if one is here."""
        if not self._frames:
            return None
        frame = self._frames.popleft()
        self._buffered -= len(frame)
        if self._buffered <= MAX_BUFFERED // 2:
            self._room.set()
        return frame

    async def wait(self, until: float | None = None) -> bool:
        """Whether a frame is here before `until`, a moment of `time.monotonic`; without it, until one is.

        Raises `LinkEnded` when none will come; what arrived before is given out first.
        """
        while not self._frames:
            if self.ended:
                raise LinkEnded(self.ended, written=True)
            if until is not None and until != math.inf and not self._watched(until):
                return False
            self._arrived.clear()
            await self._arrived.wait()
        return True

    def _watched(self, until: float) -> bool:
        """Have waiters woken up at that moment; false when it is past.

        One timer serves many frames, since a timer for each would cost as much as all else that is done for it: one
        that goes off too early only wakes a waiter that then sets the next.
        """
        left = until - monotonic()
        if left <= 0:
            return False
        if self._alarm is None or self._alarm_at > until:
            self._still()
            self._alarm, self._alarm_at = asyncio.get_running_loop().call_later(left, self._ring), until
        return True

    def _ring(self) -> None:
        self._alarm = None
        self._arrived.set()

    def _still(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def finish(self) -> None:
        """The turn is over: its terminal event was read. A frame that is still here is one too many."""
        self._in_turn = False
        self._still()
        if self._frames:
            self.end("out_of_order")

    def end(self, cause: str) -> None:
        """End the link: nothing more is sent, waiters wake up, the reader closes the socket."""
        if self.ended:
            return
        self.ended = cause
        self._still()
        self._arrived.set()
        self._room.set()
        self._pong.set()
        self._on_end(self, cause)

    async def close(self, code: int) -> None:
        """Say goodbye with a close code."""
        try:
            async with asyncio.timeout(_CLOSE_WAIT):
                await self._socket.close(code=code)
        except (TimeoutError, OSError, aiohttp.ClientError):
            return
