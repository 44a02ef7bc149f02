"""One sidecar, put together and taken down."""

from __future__ import annotations

import asyncio
import secrets
import ssl
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING

import aiohttp
import structlog
from aiohttp import web

from proxy import admin, turn, upgrade
from proxy.client import ClientSide
from proxy.egress import proxy_for
from proxy.handshake import unredirected
from proxy.links import Links
from proxy.listener import unreadable
from proxy.memory import Memory
from proxy.passthrough import PassThrough, nothing_added
from proxy.services import Services
from proxy.tasks import Tasks
from telemetry import lag
from telemetry.listener import Runner
from telemetry.logs import turn_line
from telemetry.metrics import Metrics
from telemetry.recent import Recent
from telemetry.traces import Tracing
from telemetry.turn import TurnRecord
from wire.errors import server_error

if TYPE_CHECKING:
    from proxy.settings import Address, ProxySettings

TURN_PATHS = ("/v1/responses", "/responses")
_MAINTENANCE = 5.0
_MAX_LINE = 64 * 1024
_CLIENT_GONE = 499
_LAST_WORDS = 2.0
"""Seconds that answers get to end after the drain time, when their links are closed already."""
_log = structlog.get_logger("deltawire.proxy")


@dataclass(slots=True)
class Running:
    """A sidecar that serves."""

    sidecar: Sidecar
    url: str
    admin_url: str

    async def close(self) -> None:
        """Drain and stop; running turns get the drain time of the settings."""
        await self.sidecar.close()


class Sidecar:
    """The listeners, the links, the memory and the telemetry of one sidecar."""

    def __init__(self, settings: ProxySettings, tracing: Tracing) -> None:
        self.settings = settings
        self.metrics = Metrics()
        self.recent = Recent()
        self.draining = False
        self.loop_lag = 0.0
        """Seconds by which the event loop last woke a task too late."""
        self._tracing = tracing
        self._tasks = Tasks()
        self._background = Tasks()
        self._runners: list[web.AppRunner] = []
        self._active = 0
        self._leaving = asyncio.Event()
        self._ending = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._session: aiohttp.ClientSession
        self._sockets: aiohttp.ClientSession
        self._services: Services | None = None

    async def start(self) -> Running:
        """Listen. Raises `OSError` when an address cannot be had, `ValueError` for a bad state URL."""
        settings = self.settings
        trust = ssl.create_default_context()
        self._session = _client(settings, aiohttp.TCPConnector(limit=0, ssl=trust), settings.dial_timeout)
        # Connections of their own: one left over from a refused handshake may be closing, and no turn is to meet it.
        handshakes = aiohttp.TCPConnector(limit=0, ssl=trust, force_close=True)
        # Half of a dial's time is for the connection: that none can be made is another matter than a silent server.
        self._sockets = _client(settings, handshakes, settings.dial_timeout / 2, unredirected)
        try:
            self._assemble()
            client_app = web.Application(client_max_size=0)
            client_app.router.add_route("*", "/{path:.*}", self._serve)
            client_app.on_response_prepare.append(nothing_added)
            url = await self._listen(client_app, settings.listen)
            admin_url = await self._listen(admin.application(self), settings.admin)
        except BaseException:
            await self.close()
            raise
        _log.info(
            "listening", url=url, admin=admin_url, transport=settings.transport, shared=settings.state != "memory"
        )
        return Running(self, url, admin_url)

    def _assemble(self) -> None:
        settings = self.settings
        links = Links(
            settings, self._sockets, self._tasks, on_end=self.metrics.link_ended, on_dial=self.metrics.dialled
        )
        memory = Memory(settings, self._background, on_error=self._state_error)
        http = PassThrough(settings.upstream, self._session)
        self._services = Services(settings, links, memory, http, self.metrics)
        self.metrics.observe_links(links.pool.counts)
        self.metrics.observe_gates(lambda: links.gates.shut(monotonic()))
        self.metrics.observe_heads(lambda: len(memory.index))
        self.metrics.observe_tasks(lambda: len(asyncio.all_tasks()))
        self.metrics.transport_mode(settings.transport)
        self._tasks.spawn(links.maintain(_MAINTENANCE), "link maintenance")
        self._tasks.spawn(lag.watch(self._lagged), "loop lag")

    def _lagged(self, seconds: float) -> None:
        self.loop_lag = seconds
        self.metrics.loop_lag(seconds)

    def _state_error(self, operation: str) -> None:
        self.metrics.state_error(operation)
        _log.warning("shared state does not answer", operation=operation)

    @property
    def services(self) -> Services:
        """The parts that turns work with. RuntimeError before the start."""
        if self._services is None:
            raise RuntimeError("the sidecar was not started")
        return self._services

    async def _listen(self, app: web.Application, address: Address) -> str:
        runner = Runner(
            app,
            unreadable,
            access_log=None,
            handler_cancellation=True,
            auto_decompress=False,
            max_line_size=_MAX_LINE,
            max_field_size=_MAX_LINE,
            shutdown_timeout=_LAST_WORDS,
        )
        self._runners.append(runner)
        await runner.setup()
        site = web.TCPSite(runner, address.host, address.port, reuse_address=True)
        await site.start()
        host, port = runner.addresses[0][:2]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        self._active += 1
        self._idle.clear()
        try:
            return await self._answered(request)
        finally:
            self._active -= 1
            if not self._active:
                self._idle.set()

    async def _answered(self, request: web.Request) -> web.StreamResponse:
        record = TurnRecord(request_id=f"req_{secrets.token_hex(16)}")
        client = ClientSide(request, record)
        if request.path in TURN_PATHS and request.method == "POST":
            return await self._turn(request, client, record)
        if self.draining:
            return await client.shutting_down()
        try:
            if request.path in TURN_PATHS and "websocket" in request.headers.get("upgrade", "").lower():
                ends = {"leaving": self._leaving, "ending": self._ending}
                return await upgrade.carry(request, client, self.services, session=self._sockets, **ends)
            return await self.services.http.forward(request, client, record)
        except (ConnectionResetError, aiohttp.ClientConnectionResetError):
            return web.Response(status=_CLIENT_GONE)

    async def _turn(self, request: web.Request, client: ClientSide, record: TurnRecord) -> web.StreamResponse:
        started = monotonic()
        span = self._tracing.start(request.headers.get("traceparent"), request.headers.get("tracestate"))
        try:
            if self.draining:
                return await client.shutting_down()
            return await turn.serve(self.services, request, client, record, self._tracing.headers(span))
        except asyncio.CancelledError:
            record.client_gone = True
            raise
        except (ConnectionResetError, aiohttp.ClientConnectionResetError):
            record.client_gone = True
            return web.Response(status=_CLIENT_GONE)  # nobody reads it, and nobody needs a traceback
        except Exception:
            _log.exception("turn failed", request=record.request_id)
            record.error = "internal"
            if client.opened:
                raise
            return await client.error(server_error("The sidecar failed to serve this request.", code="internal"))
        finally:
            record.duration_s = monotonic() - started
            with self._tracing.current(span):
                turn_line(record)
            self._tracing.finish(span, record)
            self.metrics.turn(record)
            self.recent.add(record)

    async def close(self) -> None:
        """Not ready, no new turns; running ones finish within the drain time; then links are closed and all ends."""
        self.draining = True
        self._leaving.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(self.settings.drain):
                await self._idle.wait()
        self._ending.set()
        if self._services is not None:
            await self._services.links.close()
        for runner in self._runners:
            await runner.cleanup()
        await self._background.finish(1.0)
        await self._tasks.cancel()
        if self._services is not None:
            await self._services.memory.close()
        await self._sockets.close()
        await self._session.close()
        await asyncio.to_thread(self._tracing.shutdown, 2.0)


def _client(
    settings: ProxySettings, connector: aiohttp.TCPConnector, connect: float, *middlewares: aiohttp.ClientMiddlewareType
) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=connector,
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=connect),
        auto_decompress=False,
        proxy=proxy_for(settings.upstream),
        cookie_jar=aiohttp.DummyCookieJar(),
        middlewares=middlewares,
        max_line_size=_MAX_LINE,
        max_field_size=_MAX_LINE,
    )


async def start(settings: ProxySettings, tracing: Tracing | None = None) -> Running:
    """Start a sidecar in this event loop."""
    return await Sidecar(settings, tracing or Tracing.from_environment({})).start()
