"""The admin side: health, metrics, and what a person asks of a running sidecar. Never on the client's port."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
from aiohttp import web

from proxy.page import PAGE
from proxy.tenants import shown
from telemetry import health

if TYPE_CHECKING:
    from proxy.app import Sidecar

_MAX_ROWS = 1000


def application(sidecar: Sidecar) -> web.Application:
    """The admin application of a sidecar."""
    side = _Admin(sidecar)
    app = web.Application()
    app.add_routes(
        health.routes(lambda: health.trouble(draining=sidecar.draining, lag=sidecar.loop_lag), sidecar.metrics.render)
    )
    app.router.add_get("/api/heads", side.heads)
    app.router.add_get("/api/links", side.links)
    app.router.add_get("/api/turns", side.turns)
    app.router.add_get("/", side.page)
    return app


class _Admin:
    def __init__(self, sidecar: Sidecar) -> None:
        self._sidecar = sidecar

    async def heads(self, request: web.Request) -> web.Response:
        heads = list(self._sidecar.services.memory.index)[: -_limit(request) - 1 : -1]
        return _json(
            [
                {
                    "tenant": shown(head.tenant),
                    "response_id": head.response_id,
                    "items": head.count,
                    "turns": head.turns,
                    "stored": head.stored,
                    "link": head.link,
                    "leases": head.leases,
                }
                for head in heads
            ],
        )

    async def links(self, _: web.Request) -> web.Response:
        return _json(
            [
                {
                    "link": slot.id,
                    "tenant": shown(slot.tenant),
                    "state": slot.state.name.lower(),
                    "response_id": slot.latest.response_id if slot.latest is not None else None,
                }
                for slot in self._sidecar.services.links.pool
            ],
        )

    async def turns(self, request: web.Request) -> web.Response:
        return _json(self._sidecar.recent.newest(_limit(request)))

    async def page(self, _: web.Request) -> web.Response:
        return web.Response(text=PAGE, content_type="text/html")


def _limit(request: web.Request) -> int:
    text = request.query.get("limit", "")
    return min(int(text), _MAX_ROWS) if text.isascii() and text.isdigit() and int(text) > 0 else _MAX_ROWS


def _json(value: Any) -> web.Response:
    return web.Response(body=orjson.dumps(value), content_type="application/json")
