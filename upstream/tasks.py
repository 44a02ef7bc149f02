"""Starting of tasks: the one place of this side that does."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

import structlog

if TYPE_CHECKING:
    from collections.abc import Coroutine

_T = TypeVar("_T")
_log = structlog.get_logger("upstream")
_running: set[asyncio.Task[Any]] = set()


def spawn(coroutine: Coroutine[Any, Any, _T], *, name: str) -> asyncio.Task[_T]:
    """A named task that is kept alive until it ends, and whose failure is logged even when nobody awaits it."""
    task = asyncio.get_running_loop().create_task(coroutine, name=name)
    _running.add(task)
    task.add_done_callback(_ended)
    return task


def _ended(task: asyncio.Task[Any]) -> None:
    _running.discard(task)
    if not task.cancelled() and (failure := task.exception()) is not None:
        # The kind only: an exception's text may quote what a client sent.
        _log.error("task_failed", task=task.get_name(), error=type(failure).__name__)
