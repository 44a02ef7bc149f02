"""Settling: what a turn leaves is written by a task of each sink, while the next turn runs already.

When, in which order and whether again is decided by the backlog (upstream.settling.backlog).
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import structlog

from upstream.settling.backlog import PartlyWrittenError
from upstream.tasks import spawn

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from telemetry.server_metrics import ServerMetrics
    from upstream.settling.backlog import Backlog

_log = structlog.get_logger("upstream")
_HURRIED: Final = 0.2
"""Longest pause in seconds while the server closes."""
_T = TypeVar("_T")


class Writer(Generic[_T]):
    """One sink: `write` takes a portion, and raises when it could not be written."""

    def __init__(
        self,
        sink: str,
        write: Callable[[Sequence[_T]], Awaitable[None]],
        backlog: Backlog[_T],
        metrics: ServerMetrics,
    ) -> None:
        self._sink, self._write, self._backlog, self._metrics = sink, write, backlog, metrics
        self._news, self._freed, self._hurry = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._task = spawn(self._work(), name=f"upstream-{sink}")

    def __len__(self) -> int:
        return len(self._backlog)

    async def reserve(self) -> None:
        """Take a place for what comes later; waits for as long as there is none."""
        while not self._backlog.reserve():
            await self._freed.wait()

    async def room(self) -> None:
        """Wait while there is no room, unless that is because the sink is in trouble."""
        while not self._backlog.room and not self._backlog.in_trouble:
            await self._freed.wait()

    def add(self, what: _T, size: int, *, reserved: bool = False, optional: bool = False) -> list[_T]:
        """To be written after all that was added before. What is given up for it, and counted."""
        given_up = self._backlog.add(what, size, reserved=reserved, optional=optional)
        if given_up:
            self._metrics.given_up(self._sink, len(given_up))
        self._news.set()
        return given_up

    async def close(self, patience: float) -> int:
        """Write what waits, for at most so many seconds. How much is left unwritten."""
        self._hurry.set()
        self._news.set()
        await asyncio.wait({self._task}, timeout=patience)
        self._task.cancel()
        await asyncio.wait({self._task})
        left = len(self._backlog)
        if left:
            self._metrics.given_up(self._sink, left)
            _log.error("settling_lost", sink=self._sink, count=left)
        return left

    async def _work(self) -> None:
        while True:
            portion = self._backlog.portion()
            if portion:
                await self._attempt(portion)
            elif self._hurry.is_set():
                return
            else:
                self._news.clear()
                await self._news.wait()

    async def _attempt(self, portion: Sequence[_T]) -> None:
        try:
            await self._write(portion)
        except Exception as failure:  # noqa: BLE001 - whatever it is, it is tried again
            pause = self._backlog.failed(failure.count if isinstance(failure, PartlyWrittenError) else 0)
            self._metrics.write_failed(self._sink)
            cause = failure.__cause__ or failure
            _log.warning("settling_failed", sink=self._sink, error=type(cause).__name__, waiting=len(self._backlog))
            self._tell_freed()
            await self._pause(pause)
        else:
            self._backlog.written()
            self._tell_freed()

    async def _pause(self, seconds: float) -> None:
        if self._hurry.is_set():
            await asyncio.sleep(min(seconds, _HURRIED))
            return
        with suppress(TimeoutError):
            await asyncio.wait_for(self._hurry.wait(), seconds)

    def _tell_freed(self) -> None:
        self._freed.set()
        self._freed = asyncio.Event()
