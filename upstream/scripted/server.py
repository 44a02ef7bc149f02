"""The scripted upstream itself: HTTP JSON, SSE and WebSocket mode of `/v1/responses` on loopback, in this process."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from aiohttp import web

from upstream.scripted.answers import message
from upstream.scripted.connection import Connection
from upstream.scripted.context import Cache, Contexts
from upstream.scripted.faults import RefuseUpgrade
from upstream.scripted.player import Player, forget
from upstream.scripted.script import Accept, Play, Script, as_function
from upstream.scripted.sinks import HttpSink
from wire.coding import BodyError, decode
from wire.errors import ApiError, invalid_request
from wire.extensions import APPEND, CONTEXT, ENVELOPE, NONCE_BYTES, offers

if TYPE_CHECKING:
    from types import TracebackType

    from upstream.scripted.turn import Turn

_ACCEPT = Accept()
_ANYWHERE = ("127.0.0.1", 0)
_NO_LIMIT = 2**40
_SHUTDOWN = 0.05  # seconds that handlers get before they are cancelled


@dataclass(frozen=True, slots=True)
class Call:
    """A request to another endpoint."""

    method: str
    path: str
    """With the query, as sent."""
    headers: dict[str, str]
    body: bytes
    """As it came: a content coding is not undone."""


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer of another endpoint."""

    status: int = 200
    body: bytes = b"{}"
    headers: dict[str, str] = field(default_factory=lambda: {"content-type": "application/json"})


Upgrade = Accept | RefuseUpgrade
Upgrades = Upgrade | Sequence[Upgrade] | Callable[[dict[str, str]], Upgrade]
"""How handshakes are answered: all alike, one by one (the last stands for all after it), or by their headers."""


def ordinary(turn: Turn) -> Play:
    """The script of an upstream that was given none: a short message each turn."""
    return Play(items=[message(f"answer {turn.number}")])


class ScriptedUpstream:
    """An upstream that plays given answers and checks what it is sent.

    `async with ScriptedUpstream(script) as up:` serves at `up.url`, the base URL of an SDK. Every turn is in
    `up.turns`; what no correct client does is in `up.violations`. `envelope`, `append`, `context` and `lanes` offer
    these features; `script_warmups` lets the script answer `generate: false` too. It remembers the latest `keep` of
    everything, or all; ids of its responses hold `name`. `listen` is its host and port, 0 for any.
    """

    def __init__(
        self,
        script: Script = ordinary,
        *,
        upgrades: Upgrades = _ACCEPT,
        others: Callable[[Call], Reply] | None = None,
        envelope: bool = False,
        append: bool = False,
        context: bool = False,
        lanes: bool = False,
        script_warmups: bool = False,
        keep: int | None = None,
        name: str = "",
        listen: tuple[str, int] = _ANYWHERE,
    ) -> None:
        self.upgrades = upgrades
        self.upgrade_attempts: list[dict[str, str]] = []
        """Headers of every handshake, refused ones too, names in lower case."""
        self.connections: list[Connection] = []
        self.calls: list[Call] = []
        self.url = ""
        self._others = others
        said = {ENVELOPE: envelope, APPEND: append, CONTEXT: context}
        self._features = [name for name, offered in said.items() if offered]
        self._lanes = lanes
        self._live: set[Connection] = set()
        self._change = asyncio.Event()
        self._listen = listen
        self._attempts = self._accepted = 0
        self._player = Player(
            as_function(script),
            Contexts(envelope=envelope, append=append, lanes=lanes, keep=keep),
            self._change.set,
            script_warmups=script_warmups,
            keep=keep,
            name=name,
        )
        self._runner: web.AppRunner | None = None

    @property
    def turns(self) -> list[Turn]:
        """Every turn in order of arrival."""
        return self._player.turns

    @property
    def violations(self) -> list[str]:
        """What no correct client does, in order."""
        return self._player.violations

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until something that happens here makes `holds()` true."""
        while not holds():
            self._change.clear()
            await self._change.wait()

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=_NO_LIMIT)
        app.router.add_route("*", "/{path:.*}", self._handle_until_left)
        self._runner = web.AppRunner(
            app,
            handler_cancellation=True,
            access_log=None,
            shutdown_timeout=_SHUTDOWN,
            auto_decompress=False,
        )
        await self._runner.setup()
        site = web.TCPSite(self._runner, *self._listen)
        await site.start()
        host, port = self._runner.addresses[0][:2]
        self.url = f"http://{host}:{port}/v1"
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for connection in self._live:
            connection.reset()
        if self._runner is not None:
            await self._runner.cleanup()
        if kind is None and self._player.failures:
            raise self._player.failures[0]

    async def _handle_until_left(self, request: web.Request) -> web.StreamResponse:
        try:
            return await self._handle(request)
        except ConnectionError:
            return web.Response()  # the other side has gone, and nobody reads this

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        if request.path == "/v1/responses":
            if request.headers.get("upgrade", "").lower() == "websocket":
                return await self._upgrade(request)
            if request.method == "POST":
                return await self._turn(request)
        call = Call(request.method, request.path_qs, _lower(request), await request.read())
        self._remember(self.calls, call)
        self._change.set()
        if self._others is None:
            return _refused(invalid_request("Not found.", status=404))
        reply = self._others(call)
        return web.Response(status=reply.status, body=reply.body, headers=reply.headers)

    async def _upgrade(self, request: web.Request) -> web.StreamResponse:
        headers = _lower(request)
        self._attempts += 1
        self._remember(self.upgrade_attempts, headers)
        upgrade = self._upgrade_answer(headers)
        if isinstance(upgrade, RefuseUpgrade):
            self._change.set()
            return web.Response(
                status=upgrade.status,
                body=upgrade.body,
                headers={"content-type": "application/json", **upgrade.headers},
            )
        nonce = secrets.token_bytes(NONCE_BYTES) if CONTEXT in self._features else b""
        if self._features:
            offered = {**offers(self._features, nonce), **upgrade.headers}
            upgrade = Accept(offered, upgrade.deflate, upgrade.answer_pings)
        self._accepted += 1
        connection = Connection(self._accepted, request, upgrade, self._player, lanes=self._lanes)
        connection.cache.nonce = nonce
        self._live.add(connection)
        self._remember(self.connections, connection)
        self._change.set()
        try:
            return await connection.serve()
        finally:
            self._live.discard(connection)
            self._change.set()

    def _upgrade_answer(self, headers: dict[str, str]) -> Upgrade:
        if isinstance(self.upgrades, Accept | RefuseUpgrade):
            return self.upgrades
        if callable(self.upgrades):
            return self.upgrades(headers)
        return self.upgrades[min(self._attempts, len(self.upgrades)) - 1]

    def _remember(self, values: list[Any], value: object) -> None:
        values.append(value)
        if self._player.keep is not None:
            forget(values, self._player.keep)

    async def _turn(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        try:
            raw = decode(body, request.headers.get("content-encoding", ""), _NO_LIMIT)
        except BodyError as error:
            return _refused(error.error)
        turn = self._player.receive("http", 0, raw, _lower(request), len(body))
        cache = Cache()
        play = await self._player.decide(turn, cache)
        stream = json.loads(turn.members.get("stream", b"false")) is True
        sink = HttpSink(request, {"x-request-id": f"req_{turn.number:06}", **play.headers}, stream=stream)
        await self._player.play(turn, play, cache, sink)
        return await sink.finish()


def _lower(request: web.Request) -> dict[str, str]:
    return {name.lower(): value for name, value in request.headers.items()}


def _refused(error: ApiError) -> web.Response:
    return web.Response(status=error.status, body=error.http_body(), content_type="application/json")
