"""Clients, one per way to say a turn, and what they saw of it. They do as little as a client can."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import aiohttp

from bench.speed.workload import Envelope, request
from wire.events import ITEM_DONE, TERMINAL, peek, response_head
from wire.sse import Parser

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterable, Sequence

_DELTA_EVENT = b".delta\n"
_DELTA_FRAME = b'.delta"'
_TYPE_WITHIN = 80
"""Bytes from the start of a frame within which its type stands."""
TURN_LIMIT = 120.0
"""Seconds after which a turn counts as lost."""
_HEADERS = {"content-type": "application/json", "authorization": "Bearer bench"}


class TurnFailed(RuntimeError):
    """A turn was not answered as it should have been: then there is nothing to measure."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One answered turn. Times are seconds since the client began to send."""

    id: str
    items: tuple[bytes, ...] = field(repr=False)
    first: float
    """To the first piece of the answer's text."""
    whole: float
    sent: int
    """Bytes of the request: body or frame."""
    transport: str = ""
    """What the sidecar said of the turn."""


@dataclass(slots=True)
class Talk:
    """A conversation as its client keeps it."""

    envelope: Envelope
    items: list[bytes] = field(default_factory=list, repr=False)
    last_id: str = ""

    def answered(self, new: Iterable[bytes], answer: Answer) -> None:
        """Another turn is over."""
        self.items += [*new, *answer.items]
        self.last_id = answer.id


class Client(Protocol):
    """A way to say a turn."""

    async def turn(self, talk: Talk, new: Sequence[bytes]) -> Answer:
        """Say the new items. Raises `TurnFailed`."""

    async def close(self) -> None:
        """End the connections."""


class Http:
    """`POST /responses`, streamed: the whole history, or with `chained` the new items and `previous_response_id`."""

    def __init__(self, base: str, *, chained: bool = False, tls: ssl.SSLContext | None = None) -> None:
        self._url, self._chained = f"{base}/responses", chained
        connector = aiohttp.TCPConnector(ssl=tls) if tls is not None else None
        self._session = aiohttp.ClientSession(
            connector=connector, timeout=aiohttp.ClientTimeout(total=TURN_LIMIT), headers=_HEADERS
        )

    async def turn(self, talk: Talk, new: Sequence[bytes]) -> Answer:
        """One request on a kept connection."""
        if self._chained:
            more = [b'"previous_response_id":"%b"' % talk.last_id.encode()] if talk.last_id else []
            body = request(talk.envelope, new, *more, b'"stream":true,"store":true')
        else:
            body = request(talk.envelope, [*talk.items, *new], b'"stream":true,"store":false')
        answer = await self.post(body)
        talk.answered(new, answer)
        return answer

    async def post(self, body: bytes) -> Answer:
        """Any body. Raises `TurnFailed`."""
        began, first, chunks = time.perf_counter(), 0.0, list[bytes]()
        try:
            async with self._session.post(self._url, data=body) as response:
                async for chunk in response.content.iter_any():
                    if not first and _DELTA_EVENT in chunk:
                        first = time.perf_counter() - began
                    chunks.append(chunk)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise TurnFailed(f"no answer: {type(error).__name__}") from error
        whole = time.perf_counter() - began
        received = b"".join(chunks)
        if response.status != 200:  # noqa: PLR2004 - OK
            raise TurnFailed(f"status {response.status}: {received[:300].decode(errors='replace')}")
        response_id, items = _read([event.data for event in Parser().feed(received)])
        return Answer(response_id, items, first, whole, len(body), response.headers.get("x-deltawire-transport", ""))

    async def close(self) -> None:
        """End the connections."""
        await self._session.close()


class Socket:
    """`response.create` on one WebSocket, with the new items only: what a client does that speaks WebSocket mode."""

    def __init__(self, base: str, *, tls: ssl.SSLContext | None = None) -> None:
        self._url, self._tls = f"{base}/responses", tls
        self._session = aiohttp.ClientSession(headers=_HEADERS)
        self._socket: aiohttp.ClientWebSocketResponse[bool] | None = None

    async def turn(self, talk: Talk, new: Sequence[bytes]) -> Answer:
        """One frame and its events."""
        more = [b'"previous_response_id":"%b"' % talk.last_id.encode()] if talk.last_id else []
        frame = request(talk.envelope, new, *more, b'"type":"response.create","store":false')
        began, first, frames = time.perf_counter(), 0.0, list[bytes]()
        socket = self._socket or await self._open()
        await socket.send_frame(frame, aiohttp.WSMsgType.TEXT)
        while not frames or peek(frames[-1]).type not in TERMINAL:
            message = await socket.receive(TURN_LIMIT)
            if message.type is not aiohttp.WSMsgType.TEXT:
                raise TurnFailed(f"the connection ended: {message.type.name}")
            if not first and _DELTA_FRAME in message.data[:_TYPE_WITHIN]:
                first = time.perf_counter() - began
            frames.append(message.data)
        whole = time.perf_counter() - began
        response_id, items = _read(frames)
        answer = Answer(response_id, items, first, whole, len(frame))
        talk.answered(new, answer)
        return answer

    async def close(self) -> None:
        """End the connection."""
        await self._session.close()

    async def _open(self) -> aiohttp.ClientWebSocketResponse[bool]:
        try:
            self._socket = await self._session.ws_connect(
                self._url, max_msg_size=0, decode_text=False, ssl=self._tls if self._tls is not None else True
            )
        except aiohttp.ClientError as error:
            raise TurnFailed(f"no WebSocket: {type(error).__name__}") from error
        return self._socket


def _read(frames: Sequence[bytes]) -> tuple[str, tuple[bytes, ...]]:
    """Id and items of a completed answer. Raises `TurnFailed` for any other."""
    events = [peek(frame) for frame in frames]
    if not events or events[-1].type != "response.completed":
        raise TurnFailed(f"not completed: {frames[-1][:300].decode(errors='replace') if frames else 'no event'}")
    return response_head(events[-1]).id, tuple(bytes(event.item) for event in events if event.type == ITEM_DONE)
