"""The admin side of a server: health and metrics, on a port of its own."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from aiohttp import web

from telemetry import health, lag
from telemetry.listener import Runner
from upstream.kept.budget import CONNECTION, KEY, LANE, PROCESS
from upstream.listener import unreadable
from upstream.tasks import spawn

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from telemetry.server_metrics import ServerMetrics
    from upstream.kept.store import Store
    from upstream.sinks import Sinks
    from upstream.websocket.api import WsApi

_FORCE = 1.0


@dataclass(slots=True)
class Admin:
    """It listens, until it is closed."""

    url: str
    _runner: web.AppRunner = field(repr=False)
    _lag: asyncio.Task[None] = field(repr=False)

    async def close(self) -> None:
        """Listen no longer."""
        self._lag.cancel()
        await self._runner.cleanup()


async def start(host: str, port: int, metrics: ServerMetrics, draining: Callable[[], bool]) -> Admin:
    """Listen. Raises `OSError` when the address cannot be had."""
    last = 0.0

    def lagged(seconds: float) -> None:
        nonlocal last
        last = seconds
        metrics.loop_lag(seconds)

    app = web.Application()
    app.add_routes(health.routes(lambda: health.trouble(draining=draining(), lag=last), metrics.render))
    runner = Runner(app, unreadable, access_log=None, shutdown_timeout=_FORCE)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
    except OSError:
        await runner.cleanup()
        raise
    taken: int = runner.addresses[0][1]
    shown = f"[{host}]" if ":" in host else host
    return Admin(f"http://{shown}:{taken}", runner, spawn(lag.watch(lagged), name="upstream-lag"))


def observe(metrics: ServerMetrics, sockets: WsApi, store: Store, sinks: Sinks) -> None:
    """Let the metrics ask for what is known elsewhere."""
    prefix = "deltawire_upstream"
    metrics.observe(f"{prefix}_connections", "Open WebSockets", "", lambda: {"": len(sockets.connections)})
    metrics.observe(
        f"{prefix}_lanes", "Lanes of open WebSockets", "", lambda: {"": sum(one.lanes for one in sockets.connections)}
    )
    metrics.observe(f"{prefix}_stored_responses", "Stored responses in memory", "", lambda: {"": len(store)})
    metrics.observe(
        f"{prefix}_cache_bytes",
        "Conversations kept between turns: of the process, and the most of any key, connection and lane",
        "scope",
        lambda: {level: store.budget.most(level) for level in (PROCESS, KEY, CONNECTION, LANE)},
    )
    metrics.observe(f"{prefix}_settling_waiting", "What waits to be written", "sink", sinks.waiting)
