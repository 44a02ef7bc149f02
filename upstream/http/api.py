"""HTTP side of the server: one handler per path, answers and errors in the API's shapes."""

from __future__ import annotations

import asyncio
import secrets
import time
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
import structlog
from aiohttp import web

from upstream.http import side
from upstream.http.io import OWNER, STARTED, as_error, as_json, from_http, read_body, send_events
from upstream.http.jobs import Jobs
from upstream.http.stored import StoredApi
from upstream.turns.request import body_members
from upstream.turns.run import Run
from wire.errors import ApiError, invalid_request, server_error

if TYPE_CHECKING:
    from upstream.http.io import Handler
    from upstream.settings import UpstreamSettings
    from upstream.turns.run import Server

_log = structlog.get_logger("upstream")
_OPEN = frozenset({"/healthz"})
"""Paths that need no key."""
_JSON = msgspec.json.Encoder()
_UPGRADE_REQUIRED = 426
_NO_WEBSOCKETS = "This server runs without WebSocket mode: send the request by POST."
_KEY_HEADERS = ("api-key", "x-api-key")


class Upgrade(Protocol):
    """Takes over a WebSocket handshake."""

    async def __call__(self, request: web.Request, owner: bytes) -> web.StreamResponse:
        """Serve the connection to its end."""


class HttpApi:
    """The handlers, and what they share."""

    def __init__(self, settings: UpstreamSettings, server: Server, upgrade: Upgrade) -> None:
        self._settings, self._server, self._admission, self._upgrade = settings, server, server.admission, upgrade
        self.jobs = Jobs(
            places=settings.background_jobs,
            waiting=settings.background_waiting,
            limit=settings.background_bytes,
            budget=server.admission.store.budget,
            log=lambda run, began: log_turn("background", run, began),
        )
        self._stored = StoredApi(server.recall, self.jobs)
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
                web.post(f"{base}/responses/compact", self.compact),
                web.post(f"{base}/responses/input_tokens", self.input_tokens),
                *self._stored.routes(base),
                web.get(f"{base}/models", self.models, allow_head=False),
                web.get(f"{base}/models/{{id:.+}}", self.model, allow_head=False),
            ]
        return found

    @web.middleware
    async def guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Every error in the API's shape, with its own status."""
        if self.draining:
            closing = as_error(server_error("The server is shutting down.", status=503, code="service_unavailable"))
            closing.force_close()
            return closing
        self._running += 1
        self.idle.clear()
        try:
            if request.path not in _OPEN:
                request[OWNER] = self._admission.gate.enter(_credentials(request))
            return await handler(request)
        except ApiError as error:
            return as_error(error)
        except web.HTTPException as error:
            return as_error(from_http(error, request), allow=error.headers.get("Allow"))
        except ConnectionError:
            return as_error(invalid_request("The connection was lost while the request was read."))
        except Exception as error:
            _log.error("request_failed", error=type(error).__name__, path=request.path[:128])
            if request.get(STARTED):
                raise
            return as_error(server_error("The server had an error while processing your request."))
        finally:
            self._running -= 1
            if not self._running:
                self.idle.set()

    async def create(self, request: web.Request) -> web.StreamResponse:
        """`POST /responses`: JSON, or a stream of events when `stream` is true."""
        began = time.monotonic()
        owner = self.owner(request)
        members = await self._members(request)
        with (await self._server.recall.brought(members, owner)).at_hand():
            turn = self._admission.admit(members, owner)
        streams, background = turn.request.fields.stream is True, turn.request.fields.background is True
        run = Run(turn, self._server, "background" if background else "http", began)
        if background:
            job = self.jobs.start(run)
            return await send_events(request, job.follow()) if streams else as_json(turn.answer.snapshot())
        try:
            async with aclosing(run.events()) as events:
                if streams:
                    return await send_events(request, events)
                async for _ in events:
                    pass
            return as_json(turn.answer.response)
        finally:
            log_turn("sse" if streams else "json", run, began)

    async def compact(self, request: web.Request) -> web.Response:
        """`POST /responses/compact`: a conversation in less, as the base of a new chain."""
        members, owner = await self._members(request), self.owner(request)
        with (await self._server.recall.brought(members, owner)).at_hand():
            return as_json(side.compacted(self._admission, members, owner, now()))

    async def input_tokens(self, request: web.Request) -> web.Response:
        """`POST /responses/input_tokens`: what a request would be counted as, without an answer."""
        members, owner = await self._members(request), self.owner(request)
        with (await self._server.recall.brought(members, owner)).at_hand():
            return as_json(side.counted(self._admission, members, owner))

    async def upgrade(self, request: web.Request) -> web.StreamResponse:
        """`GET /responses`: WebSocket mode, and nothing else."""
        if request.headers.get("upgrade", "").lower() != "websocket":
            raise web.HTTPMethodNotAllowed("GET", ["POST"])
        if not self._settings.has_websockets:
            raise ApiError(status=_UPGRADE_REQUIRED, message=_NO_WEBSOCKETS, code="websocket_not_supported")
        return await self._upgrade(request, self.owner(request))

    async def models(self, request: web.Request) -> web.Response:
        """`GET /models`: those that this key may use."""
        return as_json(_JSON.encode({"object": "list", "data": [_model(name) for name in self._visible(request)]}))

    async def model(self, request: web.Request) -> web.Response:
        """`GET /models/{id}`."""
        name = request.match_info["id"]
        if name not in self._visible(request):
            raise ApiError(
                status=404, message="The requested model does not exist.", param="model", code="model_not_found"
            )
        return as_json(_JSON.encode(_model(name)))

    async def health(self, _request: web.Request) -> web.Response:
        """`GET /healthz`."""
        return as_json(b'{"status":"ok"}')

    def owner(self, request: web.Request) -> bytes:
        """Whose request it is: a digest that stands for its key."""
        return request[OWNER]

    async def tell_limits(self, request: web.Request, response: web.StreamResponse) -> None:
        """What is left of the key's limits, on every answer to a POST."""
        owner = request.get(OWNER)
        if owner is not None and request.method == "POST":
            response.headers.update(self._admission.gate.headers(owner))

    async def _members(self, request: web.Request) -> dict[str, bytes]:
        """The body, whose request counts from here on, whatever it turns out to be."""
        self._admission.gate.begin(self.owner(request))
        return body_members(await read_body(request, self._settings.max_body))

    def _visible(self, request: web.Request) -> list[str]:
        return self._admission.gate.visible(self.owner(request), self._settings.models)


def _credentials(request: web.Request) -> str:
    """The request's credentials as an `Authorization` value; some clients name their key in a header of its own."""
    given = request.headers.get("authorization", "")
    named = next((request.headers[name] for name in _KEY_HEADERS if name in request.headers), "")
    return given or (f"Bearer {named}" if named else "")


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


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "deltawire"}
