"""WebSocket side of the server: the shell around a lane. One task reads, one runs the turns, in order."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING

import structlog
from aiohttp import WSCloseCode, WSMsgType, web

from upstream.envelope_cache import EnvelopeCache, refuse
from upstream.http_api import STARTED, log_turn, now
from upstream.lane import Kept, Lane
from upstream.problems import missing
from upstream.request import body_members
from upstream.run import Run
from upstream.tasks import spawn
from wire.errors import ApiError, connection_limit, invalid_request, server_error
from wire.extensions import ENVELOPE, FEATURES_HEADER

if TYPE_CHECKING:
    from upstream.admit import Admission
    from upstream.engine import Engine
    from upstream.settings import UpstreamSettings

_log = structlog.get_logger("upstream")
_CREATE = b'"response.create"'
_CLOSE_WAIT = 2.0
_MINUTE = 60


class WsApi:
    """Serves handshakes; knows all connections, so that they can be told to end."""

    def __init__(self, settings: UpstreamSettings, engine: Engine, admission: Admission) -> None:
        self._settings, self._engine, self._admission = settings, engine, admission
        self.connections: set[Connection] = set()

    async def __call__(self, request: web.Request, owner: bytes) -> web.StreamResponse:
        """Answer the handshake and serve the connection to its end."""
        settings = self._settings
        socket: web.WebSocketResponse[bool] = web.WebSocketResponse(
            heartbeat=settings.heartbeat,
            max_msg_size=settings.max_frame,
            timeout=_CLOSE_WAIT,
            compress=True,
            decode_text=False,
        )
        if settings.features:
            socket.headers[FEATURES_HEADER] = ", ".join(settings.features)
        request[STARTED] = True
        await socket.prepare(request)
        connection = Connection(socket, owner, settings, self._engine, self._admission)
        self.connections.add(connection)
        try:
            await connection.serve()
        finally:
            self.connections.discard(connection)
        return socket


class Connection:
    """One WebSocket: its lane, its envelope members, its age."""

    def __init__(
        self,
        socket: web.WebSocketResponse[bool],
        owner: bytes,
        settings: UpstreamSettings,
        engine: Engine,
        admission: Admission,
    ) -> None:
        self._socket, self._owner, self._settings = socket, owner, settings
        self._engine, self._admission = engine, admission
        self._lane = Lane(settings.queue_frames)
        self._envelopes = EnvelopeCache(entries=settings.envelope_entries, limit=settings.envelope_bytes)
        self._wake = asyncio.Event()
        self._expired = self._retired = False

    async def serve(self) -> None:
        """Read until the client or the server closes; then nothing of the connection goes on, nor is kept."""
        loop = asyncio.get_running_loop()
        expiry = loop.call_later(self._settings.connection_max_age, self._expire)
        worker = spawn(self._work(), name="upstream-lane")
        try:
            with suppress(ConnectionError):
                await self._read()
        finally:
            expiry.cancel()
            worker.cancel()
            with suppress(asyncio.CancelledError):
                await worker

    def retire(self) -> None:
        """Close with 1001 as soon as no turn runs."""
        self._retired = True
        self._wake.set()

    def _expire(self) -> None:
        self._expired = True
        self._wake.set()

    async def _read(self) -> None:
        async for message in self._socket:
            if message.type is WSMsgType.TEXT:
                await self._received(message.data)
            elif message.type is WSMsgType.BINARY:
                await self._send(invalid_request("Only text frames are understood.").ws_frame())

    async def _received(self, data: bytes | str) -> None:
        frame = data if isinstance(data, bytes) else data.encode()
        if self._lane.enqueue(frame):
            self._wake.set()
            return
        full = "Too many requests are waiting on this connection."
        await self._send(ApiError(429, full, type="rate_limit_error", code="too_many_requests").ws_frame())

    async def _work(self) -> None:
        with suppress(ConnectionError):
            while not (self._expired or self._retired):
                frame = self._lane.take()
                if frame is None:
                    await self._wake.wait()
                    self._wake.clear()
                else:
                    await self._turn(frame)
            if self._expired:
                minutes = max(1, round(self._settings.connection_max_age / _MINUTE))
                await self._send(connection_limit(minutes).ws_frame())
            code = WSCloseCode.OK if self._expired else WSCloseCode.GOING_AWAY
            await self._socket.close(code=code)

    async def _turn(self, frame: bytes) -> None:
        parent: str | None = None
        try:
            members = self._members(frame)
            parent = _parent(members)
            kept = await self._run(members)
        except ApiError as error:
            self._lane.refused(error, parent)
            await self._send(error.ws_frame())
        except ConnectionError:
            raise
        except Exception as failure:  # noqa: BLE001 - one turn may not end the connection
            _log.error("turn_failed", error=type(failure).__name__)
            fault = server_error("The server had an error while processing your request.")
            self._lane.refused(fault, parent)
            await self._send(fault.ws_frame())
        else:
            self._lane.settled(kept, parent)

    def _members(self, frame: bytes) -> dict[str, bytes]:
        members = body_members(frame)
        kind = members.pop("type", None)
        if kind is None:
            raise missing("type")
        if kind != _CREATE:
            raise invalid_request("Unknown event type: only 'response.create' is understood.", param="type")
        return self._envelopes.take(members) if ENVELOPE in self._settings.features else refuse(members)

    async def _run(self, members: dict[str, bytes]) -> Kept | None:
        began = time.monotonic()
        turn = self._admission.admit(members, self._owner, self._lane)
        run = Run(turn, engine=self._engine, admission=self._admission, now=now)
        try:
            async with aclosing(run.events()) as events:
                async for event in events:
                    await self._send(event.data)
        finally:
            log_turn("websocket", run, began)
        return run.kept

    async def _send(self, data: bytes) -> None:
        await self._socket.send_frame(data, WSMsgType.TEXT)


def _parent(members: dict[str, bytes]) -> str | None:
    """The id that the frame means to continue, as far as it can be read."""
    raw = members.get("previous_response_id", b"null")
    return raw[1:-1].decode() if raw[:1] == b'"' else None
