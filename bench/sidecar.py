"""A sidecar as users start it: a child process of its own."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

from bench.child import COMMAND, running

if TYPE_CHECKING:
    from collections.abc import Sequence

SidecarFactory = Callable[[str], AbstractAsyncContextManager[str]]
"""Takes the base URL of an upstream, gives the origin (`http://host:port`) at which clients reach it."""


@contextlib.asynccontextmanager
async def spawned(upstream: str, *options: str, command: Sequence[str] | None = None) -> AsyncIterator[str]:
    """`deltawire proxy` before this upstream, on free ports of loopback. Raises `StartFailed`."""
    argv = [*(command or (*COMMAND, "proxy")), "--upstream", upstream]
    argv += ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", *options]
    async with running(argv, {"proxy", "admin"}) as child:
        yield child.urls["proxy"]
