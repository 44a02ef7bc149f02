"""A client that speaks WebSocket itself: its upgrade is carried to the upstream, frame by frame."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple

import aiohttp
from aiohttp import WSMsgType, web
from yarl import URL

from proxy.gates import NO_WEBSOCKET_STATUSES, SWITCHING
from proxy.handshake import handshake_headers, websocket_url
from proxy.headers import through
from proxy.links import MAX_MESSAGE
from wire.errors import CLIENT_ERROR, bare, invalid_request
from wire.events import LANE, TERMINAL, peek
from wire.extensions import APPEND_TYPE
from wire.split import Malformed

if TYPE_CHECKING:
    from proxy.client import ClientSide
    from proxy.services import Services

_UPGRADE_REQUIRED = 426
_CLOSE_INTERNAL = 1011
_TURNS = frozenset({"response.create", APPEND_TYPE})
"""Types of a client's frames that ask for an answer."""
_PER_CONNECTION = "sec-websocket-"
_Note = Callable[[str], None]
_Socket = web.WebSocketResponse[bool] | aiohttp.ClientWebSocketResponse[bool]


class _End(NamedTuple):
    code: int
    reason: bytes = b""


async def carry(
    request: web.Request,
    client: ClientSide,
    services: Services,
    *,
    session: aiohttp.ClientSession,
    leaving: asyncio.Event,
    ending: asyncio.Event,
) -> web.StreamResponse:
    """Answer an upgrade as the upstream does; with 426 where it has no WebSocket mode, at once when that is known.

    Once `leaving` is set, what is carried is closed as going away when no turn runs on it; at `ending` in any case.
    """
    links, tenant = services.links, services.tenant(request)
    query, began = request.rel_url.raw_query_string, monotonic()
    if not links.gates.has_websocket(tenant, began):
        return await _no_websocket(client)
    if not web.WebSocketResponse().can_prepare(request):
        return await client.error(invalid_request("This is no WebSocket handshake."))
    headers = [
        (name, value)
        for name, value in through(request.headers.items())
        if not name.lower().startswith(_PER_CONNECTION)
    ]
    offered = [part.strip() for part in request.headers.get("sec-websocket-protocol", "").split(",") if part.strip()]
    try:
        far = await session.ws_connect(
            URL(websocket_url(services.settings.upstream, query), encoded=True),
            headers=headers,
            protocols=offered,
            autoping=False,
            autoclose=False,
            max_msg_size=MAX_MESSAGE,
        )
    except aiohttp.WSServerHandshakeError as error:
        links.answered(tenant, error.status, began, error.headers)
        if error.status in NO_WEBSOCKET_STATUSES or error.status < CLIENT_ERROR:  # the latter is a page, say
            return await _no_websocket(client)
        kept = {low: value for name, value in (error.headers or {}).items() if (low := name.lower()) == "retry-after"}
        message = f"The upstream refused the upgrade with status {error.status}."
        return await client.error(bare(error.status, message, kept))
    except (aiohttp.ClientError, OSError, TimeoutError):
        return await client.unreachable()
    links.answered(tenant, SWITCHING, began)
    return await _carried(request, far, leaving, ending)


async def _no_websocket(client: ClientSide) -> web.StreamResponse:
    error = invalid_request("The upstream has no WebSocket mode; use HTTP.", status=_UPGRADE_REQUIRED)
    # RFC 9110, 15.5.22 and 7.8: the answer says to which protocol, and that this is about the connection.
    return await client.error(error, {"upgrade": "websocket", "connection": "upgrade"})


async def _carried(
    request: web.Request,
    far: aiohttp.ClientWebSocketResponse[bool],
    leaving: asyncio.Event,
    ending: asyncio.Event,
) -> web.StreamResponse:
    near = web.WebSocketResponse(
        autoping=False,
        autoclose=False,
        max_msg_size=MAX_MESSAGE,
        protocols=[far.protocol] if far.protocol else (),
        compress=False,
    )
    for name, value in through(handshake_headers(far).items()):
        if not name.lower().startswith(_PER_CONNECTION):
            near.headers.add(name, value)
    end = _End(aiohttp.WSCloseCode.GOING_AWAY)
    try:
        await near.prepare(request)
        end = await _between(near, far, leaving, ending)
    finally:
        closing = [far.close(code=end.code, message=end.reason)]
        if near.prepared:
            closing.append(near.close(code=end.code, message=end.reason))
        await asyncio.gather(*closing, return_exceptions=True)
    return near


class Traffic:
    """The turns that run on a carried connection, as far as its frames tell.

    Theory. Each lane answers what it is asked one after another, a turn by one terminal event that names the lane.
    What is no turn (no event, one of another type, a lane's name that is none) is answered by an `error` there, as a
    turn may be. While both are open on a lane, an `error` is taken for the answer to the former: should that be
    wrong, the connection is held a little longer, and no turn is cut.
    """

    def __init__(self) -> None:
        self._turns: Counter[str | None] = Counter()
        self._others: Counter[str | None] = Counter()
        self.quiet = asyncio.Event()
        self.quiet.set()

    def asked(self, frame: str) -> None:
        """A frame of the client's."""
        kind, lane = _told(frame)
        if kind in _TURNS and (lane is None or LANE.fullmatch(lane)):
            self._turns[lane] += 1
            self.quiet.clear()
        else:
            self._others[lane if lane and LANE.fullmatch(lane) else None] += 1

    def answered(self, frame: str) -> None:
        """A frame of the upstream's."""
        kind, lane = _told(frame)
        if kind not in TERMINAL:
            return
        open_ = self._others if kind == "error" and self._others[lane] else self._turns
        if open_[lane] > 1:
            open_[lane] -= 1
        else:
            del open_[lane]
        if not self._turns:
            self.quiet.set()


def _told(frame: str) -> tuple[str, str | None]:
    """Type and lane of a frame; no type when it is no event."""
    try:
        event = peek(frame.encode())
    except (Malformed, UnicodeEncodeError):
        return "", None
    return event.type, event.stream_id


async def _between(near: _Socket, far: _Socket, leaving: asyncio.Event, ending: asyncio.Event) -> _End:
    """Carry messages both ways until one side ends; how it ended."""
    traffic = Traffic()
    ways = [
        asyncio.ensure_future(way)
        for way in (
            _pump(near, far, before=traffic.asked),
            _pump(far, near, after=traffic.answered),
            _left(leaving, traffic),
            _ended(ending),
        )
    ]
    try:
        done, _ = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
    return next((way.result() for way in done if way.exception() is None), _End(_CLOSE_INTERNAL))


async def _left(leaving: asyncio.Event, traffic: Traffic) -> _End:
    """The sidecar is about to go, and nothing runs here (any more)."""
    await leaving.wait()
    await traffic.quiet.wait()
    return _End(aiohttp.WSCloseCode.GOING_AWAY)


async def _ended(ending: asyncio.Event) -> _End:
    await ending.wait()
    return _End(aiohttp.WSCloseCode.GOING_AWAY)


def _unnoted(_: str) -> None:
    pass


async def _pump(source: _Socket, sink: _Socket, *, before: _Note = _unnoted, after: _Note = _unnoted) -> _End:
    """Carry messages one way until the source ends, noting texts before or after they are sent; how it ended."""
    while True:
        message = await source.receive()
        if message.type is WSMsgType.TEXT:
            before(message.data)
            await sink.send_str(message.data)
            after(message.data)
        elif message.type is WSMsgType.BINARY:
            await sink.send_bytes(message.data)
        elif message.type is WSMsgType.PING:
            await sink.ping(message.data)
        elif message.type is WSMsgType.PONG:
            await sink.pong(message.data)
        elif message.type is WSMsgType.CLOSE:
            return _End(message.data or aiohttp.WSCloseCode.OK, (message.extra or "").encode())
        elif source.close_code == aiohttp.WSCloseCode.MESSAGE_TOO_BIG:
            return _End(aiohttp.WSCloseCode.MESSAGE_TOO_BIG)
        else:
            return _End(_CLOSE_INTERNAL)  # broken off: the code for that may not stand on the wire
