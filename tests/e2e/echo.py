"""An echo with the shipped server's own WebSocket: what a conformance suite talks to."""

from __future__ import annotations

from aiohttp import WSCloseCode, WSMsgType, web

from upstream.settings import UpstreamSettings
from upstream.websocket.api import open_socket
from upstream.websocket.frame import is_text


async def echo(request: web.Request) -> web.StreamResponse:
    """Give every message back; what fails a connection to the server fails this one."""
    socket = open_socket(UpstreamSettings())
    await socket.prepare(request)
    async for message in socket:
        if message.type is WSMsgType.TEXT and not is_text(message.data):
            await socket.close(code=WSCloseCode.INVALID_TEXT)
            break
        if message.type in {WSMsgType.TEXT, WSMsgType.BINARY}:
            await socket.send_frame(message.data, message.type)
    return socket
