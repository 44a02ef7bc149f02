"""The handshake of a WebSocket to the upstream: where it goes, where it never goes, and what its answer said."""

from __future__ import annotations

from typing import TYPE_CHECKING

import aiohttp

if TYPE_CHECKING:
    from multidict import CIMultiDictProxy

_REDIRECTS = frozenset({301, 302, 303, 307, 308})


def websocket_url(upstream: str, query: str = "") -> str:
    """The WebSocket URL of a base URL: `https` to `wss`, `http` to `ws`, path and `/responses`, the query as it is."""
    url = "ws" + upstream.removeprefix("http").rstrip("/") + "/responses"
    return f"{url}?{query}" if query else url


def handshake_headers(socket: aiohttp.ClientWebSocketResponse[bool]) -> CIMultiDictProxy[str]:
    """Headers of the 101 answer, which aiohttp keeps on the response that the socket was made from."""
    return socket._response.headers  # noqa: SLF001 - there is no public way to it


async def unredirected(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    """Take a redirect of a WebSocket handshake for a refusal: credentials go to the upstream and nowhere else."""
    answer = await handler(request)
    if answer.status in _REDIRECTS:
        answer.close()
        raise aiohttp.WSServerHandshakeError(answer.request_info, (), status=answer.status, headers=answer.headers)
    return answer
