"""Background work that is not lost: every task has a name, a keeper and an end that is looked at."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import structlog

if TYPE_CHECKING:
    from collections.abc import Coroutine

_log = structlog.get_logger("deltawire.tasks")


class Tasks:
    """Keeps references to running tasks, and ends them together."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        return len(self._running)

    def spawn(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """Run `work` in the background; a failure is logged with the task's name."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._running.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("task failed", task=task.get_name(), exc_info=error)

    async def finish(self, limit: float) -> None:
        """Wait up to `limit` seconds for what runs, then cancel the rest and wait for it to end."""
        if self._running:
            await asyncio.wait(self._running, timeout=limit)
        await self.cancel()

    async def cancel(self) -> None:
        """Cancel what runs and wait for it to end."""
        running = list(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
