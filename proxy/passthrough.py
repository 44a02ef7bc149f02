"""Plain HTTP to the upstream, streamed both ways: everything that is not a turn, and turns that take no link."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import aiohttp
from aiohttp import web
from aiohttp.http import SERVER_SOFTWARE
from yarl import URL

from proxy.headers import phrase, through
from telemetry.turn import BROKEN_OFF

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Mapping

    from proxy.client import ClientSide
    from telemetry.turn import TurnRecord

UNTYPED = web.RequestKey("untyped", bool)
"""Set on a request whose answer from the upstream names no type."""
_BODILESS = frozenset({"GET", "HEAD", "DELETE", "OPTIONS", "TRACE"})
_TRACE = {"traceparent", "tracestate"}
_NO_AUTO = ("user-agent", "accept", "accept-encoding", "content-type")


def upstream_url(upstream: str, path_and_query: str) -> str:
    """Where a path asked of the sidecar lives at the upstream.

    Clients put `/v1` before it or not, as their base URL has it or not; the upstream's base URL decides.
    """
    parts = urlsplit(upstream)
    base = parts.path.rstrip("/")
    if not path_and_query.startswith("/"):
        # Absolute form (RFC 9112, 3.2.2): its authority is not for a client to choose.
        asked = urlsplit(path_and_query)
        path_and_query = "/" + asked.path.lstrip("/") + (f"?{asked.query}" if asked.query else "")
    path, mark, query = path_and_query.partition("?")
    if base and (path == base or path.startswith(base + "/")):
        rest = path[len(base) :]
    elif path == "/v1" or path.startswith("/v1/"):
        rest = path[len("/v1") :]
    else:
        rest = path
    return f"{parts.scheme}://{parts.netloc}{base}{rest}{mark}{query}"


class PassThrough:
    """Forwards requests as they are."""

    def __init__(self, upstream: str, session: aiohttp.ClientSession) -> None:
        self._upstream = upstream
        self._session = session

    async def forward(self, request: web.Request, client: ClientSide, record: TurnRecord) -> web.StreamResponse:
        """Everything that is not a turn: the body goes on as it comes in."""
        body = None if request.method in _BODILESS and not request.body_exists else request.content
        return await self._exchange(request, client, record, body, {}, marked=False)

    async def turn(
        self,
        request: web.Request,
        client: ClientSide,
        record: TurnRecord,
        raw: bytes,
        trace: Mapping[str, str],
    ) -> web.StreamResponse:
        """A turn whose body, still in its Content-Encoding, has been read already.

        `trace` are the headers of its span, which stands between the client's and the upstream's own.
        """
        record.upstream_bytes += len(raw)
        return await self._exchange(request, client, record, raw, trace, marked=True)

    async def _exchange(
        self,
        request: web.Request,
        client: ClientSide,
        record: TurnRecord,
        body: bytes | AsyncIterable[bytes] | None,
        trace: Mapping[str, str],
        *,
        marked: bool,
    ) -> web.StreamResponse:
        # `Expect` was answered when the body was first asked for.
        left_out = {"expect"} | (_TRACE if trace else set())
        headers = [(name, value) for name, value in through(request.headers.items()) if name.lower() not in left_out]
        headers.extend(trace.items())
        if request.content_length is not None and body is not None:
            headers.append(("content-length", str(request.content_length)))
        try:
            upstream = await self._session.request(
                request.method,
                URL(upstream_url(self._upstream, request.raw_path), encoded=True),
                headers=headers,
                data=body,
                allow_redirects=False,
                skip_auto_headers=_NO_AUTO,
            )
        except (aiohttp.ClientError, OSError, TimeoutError):
            return await client.unreachable()
        async with upstream:
            return await self._answer(request, client, record, upstream, marked=marked)

    async def _answer(
        self,
        request: web.Request,
        client: ClientSide,
        record: TurnRecord,
        upstream: aiohttp.ClientResponse,
        *,
        marked: bool,
    ) -> web.StreamResponse:
        record.status = upstream.status
        response = web.StreamResponse(status=upstream.status, reason=phrase(upstream.reason))
        for name, value in through(upstream.headers.items()):
            response.headers.add(name, value)
        request[UNTYPED] = "content-type" not in upstream.headers
        if upstream.content_length is not None:
            response.content_length = upstream.content_length
        if marked:
            # The id that the client sees is the one to find the turn by in our log.
            record.request_id = upstream.headers.get("x-request-id", record.request_id)
            response.headers.update(client.marks())
        await response.prepare(request)
        try:
            async for chunk in upstream.content.iter_any():
                await response.write(chunk)
        except aiohttp.ClientPayloadError:
            # The upstream broke off; the client has to see a broken answer too, not one that ends well.
            record.upstream_error = BROKEN_OFF
            if request.transport is not None:
                request.transport.abort()
            return response
        await response.write_eof()
        return response


async def nothing_added(request: web.Request, response: web.StreamResponse) -> None:
    """The library names itself, and a type, where the upstream has not; a client of plain HTTP would not read that."""
    if response.headers.get("server") == SERVER_SOFTWARE:
        del response.headers["server"]
    if request.get(UNTYPED):
        response.headers.pop("content-type", None)
