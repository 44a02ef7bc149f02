"""The naive hop that the sidecar is compared with: it reads a body, sends it on, and copies the answer's bytes.

It understands nothing of what it carries. It has the same libraries and the same event loop as the sidecar.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import aiohttp
from aiohttp import web

from bench.speed.serving import arguments, serve

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_LARGEST = 64 * 1024 * 1024
_NOT_PASSED = frozenset({"connection", "content-length", "date", "host", "keep-alive", "server", "transfer-encoding"})


class PassThrough:
    """The handlers. `upstream` is an origin."""

    def __init__(self, upstream: str) -> None:
        self._upstream = upstream

    def application(self) -> web.Application:
        """Every path."""
        app = web.Application(client_max_size=_LARGEST)
        app.cleanup_ctx.append(self._session)
        app.router.add_route("*", "/{path:.*}", self.forward)
        return app

    async def forward(self, request: web.Request) -> web.StreamResponse:
        """One request there, its answer back."""
        session: aiohttp.ClientSession = request.app[_SESSION]
        body = await request.read()
        headers = [(name, value) for name, value in request.headers.items() if name.lower() not in _NOT_PASSED]
        async with session.request(
            request.method, self._upstream + request.path_qs, data=body, headers=headers
        ) as answer:
            passed = [(name, value) for name, value in answer.headers.items() if name.lower() not in _NOT_PASSED]
            response = web.StreamResponse(status=answer.status)
            response.headers.extend(passed)
            await response.prepare(request)
            async for chunk in answer.content.iter_any():
                await response.write(chunk)
            await response.write_eof()
            return response

    @staticmethod
    async def _session(app: web.Application) -> AsyncIterator[None]:
        connector = aiohttp.TCPConnector(limit=0)
        timeout = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout, auto_decompress=False) as session:
            app[_SESSION] = session
            yield


_SESSION = web.AppKey("session", aiohttp.ClientSession)


def main() -> None:
    """Serve."""
    parser = arguments("A naive pass-through.")
    parser.add_argument("--upstream", required=True)
    given = parser.parse_args()

    async def make() -> web.Application:
        return PassThrough(given.upstream).application()

    serve("passthrough", make)


if __name__ == "__main__":
    main()
