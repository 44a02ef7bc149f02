"""A sidecar of a few lines that passes everything on by plain HTTP, and lies where a test wants it to."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import aiohttp
from aiohttp import web

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

_HOP = {"host", "content-length", "transfer-encoding", "connection"}


def same(body: bytes) -> bytes:
    """Nothing is changed."""
    return body


@dataclass(frozen=True, kw_only=True)
class StandIn:
    """Changes to the request bodies, the answers and their status; what it says of the transport."""

    request: Callable[[bytes], bytes] = same
    answer: Callable[[bytes], bytes] = same
    status: int | None = None
    transport: str = "http"
    reason: str = "client_state"
    extra_header: str = ""

    @asynccontextmanager
    async def __call__(self, upstream: str) -> AsyncIterator[str]:
        """Listen before this upstream."""
        self_url = urlsplit(upstream)
        origin = f"{self_url.scheme}://{self_url.netloc}"
        async with aiohttp.ClientSession(auto_decompress=False) as session:

            async def handle(request: web.Request) -> web.StreamResponse:
                return await self._handle(session, origin, request)

            app = web.Application()
            app.router.add_route("*", "/{path:.*}", handle)
            runner = web.AppRunner(app, access_log=None, auto_decompress=False, shutdown_timeout=0)
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            host, port = runner.addresses[0][:2]
            try:
                yield f"http://{host}:{port}"
            finally:
                await runner.cleanup()

    async def _handle(self, session: aiohttp.ClientSession, origin: str, request: web.Request) -> web.StreamResponse:
        if request.headers.get("upgrade"):
            return await _carry(session, origin, request)
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _HOP}
        if self.extra_header:
            headers[self.extra_header] = "x"
        body = self.request(await request.read())
        target = origin + request.path_qs
        async with session.request(request.method, target, data=body or None, headers=headers) as upstream:
            marks = {"x-deltawire-transport": self.transport, "x-deltawire-reason": self.reason}
            headers = {"content-type": upstream.headers.get("content-type", "")} | marks
            response = web.StreamResponse(status=self.status or upstream.status, headers=headers)
            await response.prepare(request)
            got = bytearray()
            try:
                async for chunk in upstream.content.iter_any():
                    got += chunk
            except aiohttp.ClientPayloadError:
                await response.write(bytes(got))
                if request.transport is not None:
                    request.transport.close()
                return response
            await response.write(self.answer(bytes(got)))
            await response.write_eof()
            return response


async def _carry(session: aiohttp.ClientSession, origin: str, request: web.Request) -> web.StreamResponse:
    """A WebSocket, passed on message by message."""
    client = web.WebSocketResponse()
    await client.prepare(request)
    async with session.ws_connect(origin + request.path_qs) as upstream, asyncio.TaskGroup() as group:

        async def down() -> None:
            async for message in upstream:
                await client.send_str(message.data)

        task = group.create_task(down())
        async for message in client:
            await upstream.send_str(message.data)
        task.cancel()
    return client
