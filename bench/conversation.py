"""A client's own WebSocket conversation, sent again through the sidecar."""

from __future__ import annotations

from typing import TYPE_CHECKING

import aiohttp

from wire.events import TERMINAL, peek

if TYPE_CHECKING:
    from bench.trace import WsUpgrade

_MADE_ANEW = ("host", "connection", "upgrade", "content-length", "sec-websocket-")
_DEFLATE_WINDOW = 15


class Conversation:
    """One WebSocket of the client."""

    def __init__(self, session: aiohttp.ClientSession, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._session = session
        self._socket = socket

    @classmethod
    async def open(cls, origin: str, upgrade: WsUpgrade) -> Conversation:
        """The handshake with the recorded headers, but for those that belong to one connection.

        Raises `aiohttp.WSServerHandshakeError` when it is refused.
        """
        headers = [(name, value) for name, value in upgrade.headers if not name.lower().startswith(_MADE_ANEW)]
        deflate = any("permessage-deflate" in v for n, v in upgrade.headers if n.lower() == "sec-websocket-extensions")
        session = aiohttp.ClientSession()
        try:
            socket = await session.ws_connect(
                origin + upgrade.path,
                headers=headers,
                compress=_DEFLATE_WINDOW if deflate else 0,
                max_msg_size=0,
            )
        except BaseException:
            await session.close()
            raise
        return cls(session, socket)

    async def send(self, body: bytes) -> None:
        """One text message."""
        await self._socket.send_str(body.decode())

    async def answer(self) -> list[bytes]:
        """Messages up to the end of the turn, or of the connection."""
        frames: list[bytes] = []
        while not frames or peek(frames[-1]).type not in TERMINAL:
            message = await self._socket.receive()
            if message.type is not aiohttp.WSMsgType.TEXT:
                break
            frames.append(message.data.encode())
        return frames

    async def close(self) -> None:
        """The closing handshake."""
        await self._socket.close()
        await self._session.close()
