"""WebSocket side of the server: the shell around the lanes. One task reads; each turn that runs has one of its own."""

from __future__ import annotations

import asyncio
import secrets
import time
from contextlib import aclosing, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import structlog
from aiohttp import WSCloseCode, WSMsgType, web

from upstream.http.api import log_turn
from upstream.http.io import STARTED
from upstream.kept.recall import Named
from upstream.tasks import spawn
from upstream.turns.run import Run
from upstream.websocket.envelope_cache import EnvelopeCache
from upstream.websocket.frame import Frame, is_text, not_text, read_frame, tagged
from upstream.websocket.lanes import Lanes
from upstream.websocket.share import Share
from wire.errors import ApiError, connection_limit, server_error
from wire.events import TERMINAL
from wire.extensions import APPEND, CONTEXT, ENVELOPE, NONCE_BYTES, offers

if TYPE_CHECKING:
    from upstream.settings import UpstreamSettings
    from upstream.turns.admit import Turn
    from upstream.turns.run import Server
    from upstream.websocket.lane import Lane

_log = structlog.get_logger("upstream")
_CLOSE_WAIT = 2.0
_MINUTE = 60


def open_socket(settings: UpstreamSettings) -> web.WebSocketResponse[bool]:
    """A WebSocket with the server's limits, pings and compression; messages come as bytes, not checked for UTF-8."""
    return web.WebSocketResponse(
        heartbeat=settings.heartbeat,
        max_msg_size=settings.max_frame,
        timeout=_CLOSE_WAIT,
        compress=settings.compresses,
        decode_text=False,
    )


class WsApi:
    """Serves handshakes; knows all connections, so that they can be told to end."""

    def __init__(self, settings: UpstreamSettings, server: Server) -> None:
        self._settings, self._server = settings, server
        self.connections: set[Connection] = set()

    async def __call__(self, request: web.Request, owner: bytes) -> web.StreamResponse:
        """Answer the handshake and serve the connection to its end."""
        settings = self._settings
        socket = open_socket(settings)
        nonce = secrets.token_bytes(NONCE_BYTES) if CONTEXT in settings.features else b""
        socket.headers.update(offers(settings.features, nonce))
        request[STARTED] = True
        await socket.prepare(request)
        connection = Connection(socket, owner, settings, self._server, nonce)
        self.connections.add(connection)
        try:
            await connection.serve()
        finally:
            self.connections.discard(connection)
        return socket


class Connection:
    """One WebSocket: its lanes, its envelope members, its age."""

    def __init__(
        self,
        socket: web.WebSocketResponse[bool],
        owner: bytes,
        settings: UpstreamSettings,
        server: Server,
        nonce: bytes = b"",
    ) -> None:
        self._socket, self._owner, self._settings = socket, owner, settings
        self._server, self._admission = server, server.admission
        self._lanes = Lanes(waiting=settings.queue_frames, waiting_bytes=settings.queue_bytes)
        offered = EnvelopeCache(entries=settings.envelope_entries, limit=settings.envelope_bytes)
        self._envelopes = offered if ENVELOPE in settings.features else None
        lanes, appends = settings.multiplexes, APPEND in settings.features
        self._read_frame = partial(read_frame, envelopes=self._envelopes, lanes=lanes, appends=appends, nonce=nonce)
        self._share = Share(server.admission.store.budget, owner, self._envelopes)
        self._turns: set[asyncio.Task[None]] = set()
        self._idle = asyncio.Event()
        self._end: asyncio.Task[None] | None = None
        self._ending = self._told = False

    @property
    def lanes(self) -> int:
        """How many lanes it has, the default one included."""
        return len(self._lanes)

    async def serve(self) -> None:
        """Read until the client or the server closes; then nothing of the connection goes on, nor is kept."""
        loop = asyncio.get_running_loop()
        expiry = loop.call_later(self._settings.connection_max_age, self._expire)
        try:
            with suppress(ConnectionError):
                await self._read()
        finally:
            expiry.cancel()
            left = [*self._turns, *([self._end] if self._end is not None and not self._ending else [])]
            for task in left:
                task.cancel()
            await asyncio.gather(*left, *([self._end] if self._end is not None else []), return_exceptions=True)
            self._share.close()

    def retire(self) -> None:
        """Refuse what has not begun; close with 1001 as soon as no turn runs."""
        closing = server_error("The server is shutting down.", status=503, code="service_unavailable")
        self._close_after(closing, WSCloseCode.GOING_AWAY)

    def _expire(self) -> None:
        minutes = max(1, round(self._settings.connection_max_age / _MINUTE))
        self._close_after(connection_limit(minutes), WSCloseCode.OK)

    def _close_after(self, refusal: ApiError, code: WSCloseCode) -> None:
        if self._end is None:
            self._lanes.retire(refusal)
            self._end = spawn(self._close(refusal, code), name="upstream-close")

    async def _close(self, refusal: ApiError, code: WSCloseCode) -> None:
        while not self._lanes.idle:
            self._idle.clear()
            await self._idle.wait()
        self._ending = True
        with suppress(ConnectionError):
            if code == WSCloseCode.OK and not self._told:
                await self._tell(refusal, None)
            await self._socket.close(code=code)

    async def _read(self) -> None:
        async for message in self._socket:
            if message.type is WSMsgType.BINARY:
                await self._received(None, not_text())
            elif message.type is WSMsgType.TEXT:
                data: bytes = message.data
                if not is_text(data):
                    await self._socket.close(code=WSCloseCode.INVALID_TEXT)
                    return
                received = time.monotonic()
                name, frame = self._read_frame(data)
                del message, data  # or this loop would keep them until the next frame comes
                await self._received(name, replace(frame, received=received))
                del frame

    async def _received(self, name: str | None, frame: Frame) -> None:
        self._share.envelopes()
        error = self._lanes.offer(name, self._counted(frame))
        if error is not None:
            await self._tell(error, name)
        self._start()

    def _counted(self, frame: Frame) -> Frame:
        """The frame, or what refuses it: it counts when it arrives, whatever becomes of it."""
        try:
            self._admission.gate.begin(self._owner)
        except ApiError as error:
            return Frame(parent=frame.parent, refusal=error)
        return frame

    def _start(self) -> None:
        """Begin all that may: a parent in memory is found here, at the moment the frame is taken."""
        while (started := self._lanes.take()) is not None:
            lane, frame = started
            missing = self._server.recall.missing(frame.members, self._owner, lane)
            task = spawn(self._turn(lane, frame, missing or self._admitted(lane, frame)), name="upstream-turn")
            self._turns.add(task)
            task.add_done_callback(self._turns.discard)
        if self._lanes.idle:
            self._idle.set()

    def _admitted(self, lane: Lane, frame: Frame) -> Turn | ApiError:
        if frame.refusal is not None:
            return self._refused(lane, frame, frame.refusal)
        try:
            if frame.resumes:
                return self._admission.resume(frame.members, self._owner, lane, frame.parent or "", frame.claim)
            return self._admission.admit(frame.members, self._owner, lane, frame.claim)
        except ApiError as error:
            return self._refused(lane, frame, error)
        except Exception as failure:  # noqa: BLE001 - one turn may not end the connection
            return self._refused(lane, frame, _fault(failure))

    async def _recalled(self, lane: Lane, frame: Frame, missing: Named) -> Turn | ApiError:
        try:
            brought = await self._server.recall.bring(missing, self._owner)
        except Exception as failure:  # noqa: BLE001 - one turn may not end the connection
            return self._refused(lane, frame, _fault(failure))
        with brought.at_hand():
            return self._admitted(lane, frame)

    def _refused(self, lane: Lane, frame: Frame, error: ApiError) -> ApiError:
        lane.refused(error, frame.parent)
        return error

    async def _turn(self, lane: Lane, frame: Frame, found: Turn | ApiError | Named) -> None:
        with suppress(ConnectionError):
            turn = await self._recalled(lane, frame, found) if isinstance(found, Named) else found
            error = turn if isinstance(turn, ApiError) else await self._run(lane, frame, turn)
            if error is not None:
                self._told |= lane.name is None and self._end is not None
                await self._tell(error, lane.name)
            self._share.lane(lane)
            lane.ended()
            self._start()

    async def _run(self, lane: Lane, frame: Frame, turn: Turn) -> ApiError | None:
        """Send the answer. The error, when it cannot be had."""
        run = Run(turn, self._server, "websocket", frame.received)
        try:
            async with aclosing(run.events()) as events:
                async for event in events:
                    # Before the client is told: it may continue on another lane, or repeat, as soon as it knows.
                    if event.type in TERMINAL:
                        lane.settled(run.kept, frame.parent)
                        self._share.lane(lane)
                    await self._send(tagged(event.data, lane.name))
        except ConnectionError:
            raise
        except ApiError as error:
            return self._refused(lane, frame, error)
        except Exception as failure:  # noqa: BLE001 - one turn may not end the connection
            return self._refused(lane, frame, _fault(failure))
        finally:
            log_turn("websocket", run, frame.received)
        return None

    async def _tell(self, error: ApiError, name: str | None) -> None:
        told = error.coded() if self._settings.codes_every_error else error
        await self._send(told.ws_frame(name))

    async def _send(self, data: bytes) -> None:
        await self._socket.send_frame(data, WSMsgType.TEXT)


def _fault(failure: Exception) -> ApiError:
    _log.error("turn_failed", error=type(failure).__name__)
    return server_error("The server had an error while processing your request.")
