"""An echo with the shipped server's own WebSocket: what a conformance suite talks to."""

from __future__ import annotations

from aiohttp import WSCloseCode, WSMsgType, web

from upstream.frame import is_text
from upstream.settings import UpstreamSettings
from upstream.ws_api import open_socket


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
