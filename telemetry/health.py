"""The paths that every admin side has: whether the process lives, whether it takes turns, and its metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from aiohttp import web

if TYPE_CHECKING:
    from collections.abc import Callable

READY_LAG: Final = 2.0
"""Seconds of lag of the event loop beyond which turns had better go elsewhere."""


def trouble(*, draining: bool, lag: float) -> str:
    """Why turns had better go elsewhere, in one word; empty when there is no reason. `lag` is in seconds."""
    if draining:
        return "draining"
    return "wedged" if lag > READY_LAG else ""


def routes(told: Callable[[], str], render: Callable[[], tuple[bytes, str]]) -> list[web.RouteDef]:
    """`/healthz`; `/readyz`, 503 while there is `trouble` to be told; `/metrics`, rendered with their content type."""

    async def healthz(_: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def readyz(_: web.Request) -> web.Response:
        reason = told()
        return web.Response(status=503, text=f"{reason}\n") if reason else web.Response(text="ready\n")

    async def metrics(_: web.Request) -> web.Response:
        body, content_type = render()
        return web.Response(body=body, headers={"content-type": content_type})

    return [web.get("/healthz", healthz), web.get("/readyz", readyz), web.get("/metrics", metrics)]
