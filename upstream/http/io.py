"""What all HTTP handlers of the server use: bodies in, answers and errors in the API's shapes out."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from aiohttp import web

from wire import sse
from wire.coding import BodyError, decode, too_large
from wire.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Awaitable, Callable

    from upstream.turns.answer import Event

    Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

STARTED = web.RequestKey("started", bool)
"""Set once an answer has begun, after which no other can be given."""
OWNER = web.RequestKey("owner", bytes)
"""Whose request it is: a digest that stands for its key."""
STREAM_END = web.AppKey("stream_end", bytes)
"""What every stream of events ends with, after the terminal event."""


async def read_body(request: web.Request, limit: int) -> bytes:
    """The request's body without its coding, at most `limit` bytes on the wire and in memory."""
    codings = ",".join(request.headers.getall("content-encoding", ()))
    try:
        return decode(await request.read(), codings, limit)
    except web.HTTPRequestEntityTooLarge:
        raise too_large(limit).error from None
    except BodyError as error:
        raise error.error from None


async def send_events(request: web.Request, events: AsyncIterable[Event]) -> web.StreamResponse:
    """Answer with a stream of events, until the last or until the client leaves.

    The answer begins with the first event: an `ApiError` raised before it can still be one of its own status.
    """
    reply: web.StreamResponse | None = None
    headers = {"content-type": sse.CONTENT_TYPE, "cache-control": "no-cache"}
    with suppress(ConnectionError):  # the client has left, and nobody is there to be told
        async for event in events:
            if reply is None:
                reply = web.StreamResponse(headers=headers)
                request[STARTED] = True
                await reply.prepare(request)
            await reply.write(sse.encode(event.type, event.data))
        if reply is not None:
            await reply.write_eof(request.app.get(STREAM_END, b""))
    return reply or web.StreamResponse(headers=headers)


def as_json(body: bytes) -> web.Response:
    """A JSON answer."""
    return web.Response(body=body, content_type="application/json")


def as_error(error: ApiError, allow: str | None = None) -> web.Response:
    """An error's answer; `allow` lists the methods that a path has."""
    headers = error.headers | ({"allow": allow} if allow else {})
    return web.Response(status=error.status, body=error.http_body(), headers=headers, content_type="application/json")


def from_http(error: web.HTTPException, request: web.Request) -> ApiError:
    """An error that the HTTP library found."""
    if error.status == web.HTTPNotFound.status_code:
        return ApiError(status=error.status, message=f"Invalid URL ({request.method} {request.path[:256]})")
    return ApiError(status=error.status, message=error.reason)
