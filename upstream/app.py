"""The server put together: `start(settings)` listens, `close()` ends it without cutting what runs."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import structlog
from aiohttp import web

from telemetry.listener import Runner
from telemetry.server_metrics import ServerMetrics
from upstream import admin
from upstream.access.gate import Gate
from upstream.access.keys import BadKeysError, Keyring, read_keys
from upstream.engines.select import engine_for, models
from upstream.http.api import HttpApi, now, stamp
from upstream.http.io import STREAM_END
from upstream.kept.budget import CONNECTION, KEY, LANE, PROCESS, Budget
from upstream.kept.recall import Recall
from upstream.kept.store import Store
from upstream.listener import unreadable
from upstream.settling.books import Books
from upstream.sinks import Sinks
from upstream.stages.screens import chain
from upstream.stages.seal import Sealer
from upstream.stages.style import Style
from upstream.stages.style import check as check_style
from upstream.turns.admit import Admission
from upstream.turns.run import Server
from upstream.websocket.api import WsApi
from wire.extensions import CONTEXT

if TYPE_CHECKING:
    from upstream.engine import Engine
    from upstream.settings import UpstreamSettings

_FORCE = 1.0
_FLUSH = 5.0
"""Seconds that what was settled has to be written in, after the last turn has ended."""
_log = structlog.get_logger("upstream")


@dataclass(slots=True)
class Running:
    """A listening server."""

    url: str
    """Base URL without a path, such as `http://127.0.0.1:8788`."""
    port: int
    _runner: web.AppRunner = field(repr=False)
    _site: web.TCPSite = field(repr=False)
    _http: HttpApi = field(repr=False)
    _ws: WsApi = field(repr=False)
    _engine: Engine = field(repr=False)
    _sinks: Sinks = field(repr=False)
    _admin: admin.Admin | None = field(repr=False)
    _drain: float = 0.0

    @property
    def admin_url(self) -> str:
        """Base URL of the admin side; empty without one."""
        return self._admin.url if self._admin is not None else ""

    @property
    def told(self) -> list[str]:
        """Lines that tell a user where it listens."""
        beside = [f"deltawire upstream-admin listening on {self.admin_url}"] if self.admin_url else []
        return [f"deltawire upstream listening on {self.url}", *beside]

    async def close(self) -> int:
        """Take nothing new, let running turns end for at most the set time, close WebSockets with 1001.

        How much of what the turns left could not be written, in at most 5 s after that.
        """
        self._http.draining = True
        await self._site.stop()
        for connection in list(self._ws.connections):
            connection.retire()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._http.idle.wait(), self._drain)
        await self._http.jobs.close(self._drain)
        await self._runner.cleanup()
        await self._engine.close()
        left = await self._sinks.close(_FLUSH)
        if self._admin is not None:  # until now it told that this server drains
            await self._admin.close()
        return left


async def start(settings: UpstreamSettings) -> Running:
    """Listen. Raises `ValueError` for a setting that cannot be used, `OSError` when the address cannot be had."""
    settings = replace(settings, models=models(settings))
    check_style(Style(settings.template, settings.vocabulary))
    keyring = _keyring(settings.keys)
    metrics = ServerMetrics()
    sinks = Sinks(settings, metrics)
    try:
        return await _started(settings, metrics, sinks, keyring)
    except BaseException:
        await sinks.close(0)
        raise


async def _started(
    settings: UpstreamSettings, metrics: ServerMetrics, sinks: Sinks, keyring: Keyring | None
) -> Running:
    engine = await engine_for(settings)
    admission = Admission(
        engine=engine,
        sealer=Sealer(settings.secret),
        store=Store(settings.store_bytes, _budget(settings, metrics)),
        now=now,
        gate=Gate(keyring, limited=metrics.rate_limited, secret=settings.secret),
        context_window=settings.context_window,
        screens=chain(settings.screen),
        style=Style(settings.template, settings.vocabulary),
        caching=settings.caching,
        keep=sinks.keep,
        proves=CONTEXT in settings.features,
    )
    behind = sinks.library.writer if sinks.library is not None else None
    books = Books(metrics, admission.gate.holder, sinks.ledger, behind)
    server = Server(engine, admission, books, Recall(admission.store, admission.reader.empty, sinks.library), now)
    sockets = WsApi(settings, server)
    api = HttpApi(settings, server, sockets)
    app = web.Application(middlewares=[api.guard], client_max_size=settings.max_body)
    app[STREAM_END] = settings.stream_end
    app.add_routes(api.routes())
    app.on_response_prepare.append(stamp)
    app.on_response_prepare.append(api.tell_limits)
    runner = Runner(
        app, unreadable, handler_cancellation=True, access_log=None, auto_decompress=False, shutdown_timeout=_FORCE
    )
    await runner.setup()
    site = web.TCPSite(runner, settings.host, settings.port)
    admin.observe(metrics, sockets, admission.store, sinks)
    try:
        await site.start()
        told = settings.admin_host
        beside = await admin.start(told, settings.admin_port, metrics, lambda: api.draining) if told else None
    except OSError:
        await runner.cleanup()
        await engine.close()
        raise
    port: int = runner.addresses[0][1]
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return Running(
        f"http://{host}:{port}", port, runner, site, api, sockets, engine, sinks, beside, settings.drain_seconds
    )


def _budget(settings: UpstreamSettings, metrics: ServerMetrics) -> Budget:
    def evicted(level: str) -> None:
        metrics.evicted(level)
        _log.info("state_evicted", over=level)

    limits = {
        LANE: settings.max_lane_cache,
        CONNECTION: settings.max_connection_cache,
        KEY: settings.max_key_cache,
        PROCESS: settings.max_cache,
    }
    return Budget(limits, evicted)


def _keyring(file: str) -> Keyring | None:
    if not file:
        return None
    try:
        return read_keys(Path(file).read_bytes().decode())
    except OSError as error:
        raise ValueError(f"--keys: {file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError(f"--keys: {file}: not text in UTF-8") from None
    except BadKeysError as error:
        raise ValueError(f"--keys: {file}: {error}") from None
