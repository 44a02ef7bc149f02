"""HTTP side of the server: one handler per path, answers and errors in the API's shapes."""

from __future__ import annotations

import asyncio
import hashlib
import os
import secrets
import time
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
import structlog
from aiohttp import web

from upstream import listing
from upstream.problems import unsupported
from upstream.request import body_members
from upstream.run import Run
from wire import sse
from wire.coding import BodyError, decode, too_large
from wire.errors import ApiError, invalid_request, server_error

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from upstream.admit import Admission
    from upstream.engine import Engine
    from upstream.settings import UpstreamSettings
    from upstream.store import Stored

    Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_log = structlog.get_logger("upstream")
STARTED = web.RequestKey("started", bool)
"""Set once an answer has begun, after which no other can be given."""
_JSON = msgspec.json.Encoder()
_CREDENTIALS = ("authorization", "api-key", "x-api-key")


class Upgrade(Protocol):
    """Takes over a WebSocket handshake."""

    async def __call__(self, request: web.Request, owner: bytes) -> web.StreamResponse:
        """Serve the connection to its end."""


class HttpApi:
    """The handlers, and what they share."""

    def __init__(self, settings: UpstreamSettings, engine: Engine, admission: Admission, upgrade: Upgrade) -> None:
        self._settings, self._engine, self._admission, self._upgrade = settings, engine, admission, upgrade
        self._owner_key = os.urandom(32)
        self.draining = False
        self.idle = asyncio.Event()
        """Set while no request is being answered and no WebSocket is open."""
        self.idle.set()
        self._running = 0

    def routes(self) -> list[web.RouteDef]:
        """All paths, with and without `/v1`."""
        found = [web.get("/healthz", self.health, allow_head=False)]
        for base in ("", "/v1"):
            found += [
                web.post(f"{base}/responses", self.create),
                web.get(f"{base}/responses", self.upgrade, allow_head=False),
                web.get(f"{base}/responses/{{id}}", self.retrieve, allow_head=False),
                web.delete(f"{base}/responses/{{id}}", self.delete),
                web.get(f"{base}/responses/{{id}}/input_items", self.input_items, allow_head=False),
                web.get(f"{base}/models", self.models, allow_head=False),
                web.get(f"{base}/models/{{id:.+}}", self.model, allow_head=False),
            ]
        return found

    @web.middleware
    async def guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Every error in the API's shape, with its own status."""
        if self.draining:
            closing = _error(server_error("The server is shutting down.", status=503, code="service_unavailable"))
            closing.force_close()
            return closing
        self._running += 1
        self.idle.clear()
        try:
            return await handler(request)
        except ApiError as error:
            return _error(error)
        except web.HTTPException as error:
            return _error(_from_http(error, request), allow=error.headers.get("Allow"))
        except ConnectionError:
            return _error(invalid_request("The connection was lost while the request was read."))
        except Exception as error:
            _log.error("request_failed", error=type(error).__name__, path=request.path[:128])
            if request.get(STARTED):
                raise
            return _error(server_error("The server had an error while processing your request."))
        finally:
            self._running -= 1
            if not self._running:
                self.idle.set()

    async def create(self, request: web.Request) -> web.StreamResponse:
        """`POST /responses`: JSON, or a stream of events when `stream` is true."""
        began = time.monotonic()
        owner = self.owner(request)
        turn = self._admission.admit(body_members(await _body(request, self._settings.max_body)), owner)
        run = Run(turn, engine=self._engine, admission=self._admission, now=now)
        streams = turn.request.fields.stream is True
        try:
            if streams:
                return await self._stream(request, run)
            async with aclosing(run.events()) as events:
                async for _ in events:
                    pass
            return _json(turn.answer.response)
        finally:
            log_turn("sse" if streams else "json", run, began)

    async def _stream(self, request: web.Request, run: Run) -> web.StreamResponse:
        reply = web.StreamResponse(headers={"content-type": sse.CONTENT_TYPE, "cache-control": "no-cache"})
        request[STARTED] = True
        await reply.prepare(request)
        with suppress(ConnectionError):  # the client has left, and nobody is there to be told
            async with aclosing(run.events()) as events:
                async for event in events:
                    await reply.write(sse.encode(event.type, event.data))
            await reply.write_eof()
        return reply

    async def upgrade(self, request: web.Request) -> web.StreamResponse:
        """`GET /responses`: WebSocket mode, and nothing else."""
        if request.headers.get("upgrade", "").lower() != "websocket":
            raise web.HTTPMethodNotAllowed("GET", ["POST"])
        return await self._upgrade(request, self.owner(request))

    async def retrieve(self, request: web.Request) -> web.Response:
        """`GET /responses/{id}`."""
        if request.query.get("stream") == "true":
            raise unsupported("stream", "Only responses made in the background can be streamed again.")
        return _json(self._stored(request).response)

    async def delete(self, request: web.Request) -> web.Response:
        """`DELETE /responses/{id}`."""
        stored = self._stored(request)
        self._admission.store.delete(stored.id, stored.owner)
        return _json(_JSON.encode({"id": stored.id, "object": "response", "deleted": True}))

    async def input_items(self, request: web.Request) -> web.Response:
        """`GET /responses/{id}/input_items`: what the request brought, newest first unless `order=asc`."""
        stored = self._stored(request)
        query = request.query
        page = listing.page(stored, order=query.get("order"), after=query.get("after"), limit=query.get("limit"))
        return _json(_JSON.encode(page))

    async def models(self, _request: web.Request) -> web.Response:
        """`GET /models`."""
        return _json(_JSON.encode({"object": "list", "data": [_model(name) for name in self._settings.models]}))

    async def model(self, request: web.Request) -> web.Response:
        """`GET /models/{id}`."""
        name = request.match_info["id"]
        if name not in self._settings.models:
            raise ApiError(
                status=404, message="The requested model does not exist.", param="model", code="model_not_found"
            )
        return _json(_JSON.encode(_model(name)))

    async def health(self, _request: web.Request) -> web.Response:
        """`GET /healthz`."""
        return _json(b'{"status":"ok"}')

    def owner(self, request: web.Request) -> bytes:
        """Whose request it is: a digest of the credentials under a key of this process."""
        given = "\n".join(request.headers.get(name, "") for name in _CREDENTIALS)
        credentials = given.encode(errors="surrogateescape")
        return hashlib.blake2b(credentials, digest_size=16, key=self._owner_key).digest()

    def _stored(self, request: web.Request) -> Stored:
        response_id = request.match_info["id"]
        found = self._admission.store.get(response_id, self.owner(request))
        if found is None:
            raise invalid_request(f"Response with id '{response_id[:128]}' not found.", status=404)
        return found


async def stamp(_request: web.Request, response: web.StreamResponse) -> None:
    """Each answer has a request id of its own."""
    response.headers["x-request-id"] = f"req_{secrets.token_hex(16)}"


def now() -> int:
    """Seconds since 1970."""
    return int(time.time())  # noqa: TID251 - response objects carry the time of day


def log_turn(transport: str, run: Run, began: float) -> None:
    """One line per turn, without content; also for a turn whose client left before its end."""
    turn = run.turn
    status = turn.answer.status
    _log.info(
        "turn",
        transport=transport,
        response_id=turn.answer.id,
        status="abandoned" if status == "in_progress" else status,
        model=turn.request.model[:128],
        continued=turn.request.fields.previous_response_id is not None,
        input_tokens=turn.input_tokens,
        cached_tokens=turn.cached_tokens,
        seconds=round(time.monotonic() - began, 6),
    )


async def _body(request: web.Request, limit: int) -> bytes:
    """The request's body without its coding, at most `limit` bytes on the wire and in memory."""
    codings = ",".join(request.headers.getall("content-encoding", ()))
    try:
        return decode(await request.read(), codings, limit)
    except web.HTTPRequestEntityTooLarge:
        raise too_large(limit).error from None
    except BodyError as error:
        raise error.error from None


def _from_http(error: web.HTTPException, request: web.Request) -> ApiError:
    if error.status == web.HTTPNotFound.status_code:
        text = f"Invalid URL ({request.method} {request.path[:256]})"
    else:
        text = error.reason
    return ApiError(status=error.status, message=text)


def _error(error: ApiError, allow: str | None = None) -> web.Response:
    headers = error.headers | ({"allow": allow} if allow else {})
    return web.Response(status=error.status, body=error.http_body(), headers=headers, content_type="application/json")


def _json(body: bytes) -> web.Response:
    return web.Response(body=body, content_type="application/json")


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "deltawire"}
