"""How late the event loop is: the one figure that says that something blocks it."""

import asyncio
import time
from collections.abc import Awaitable, Callable


async def watch(
    report: Callable[[float], None],
    interval: float = 0.5,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
) -> None:
    """Report, each `interval` seconds until cancelled, by how many seconds the loop woke this task too late."""
    while True:
        due = clock() + interval
        await sleep(interval)
        report(max(0.0, clock() - due))
