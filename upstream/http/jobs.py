r"""Responses that are made in the background: they run on when their client leaves, and can be followed and cancelled.

    queued --a place is free--> in_progress --> completed | incomplete | failed
       \________________________cancel_________________________/ --> cancelled

At most `places` run at once and `waiting` wait for a place; one more is refused with 429. Their events are kept within
`limit` bytes, and of jobs that have ended the oldest are forgotten first: what was stored of them stays in the store.
Their conversations are charged to the budgets of their key and of the process. One that has not ended cannot let go of
it, so that it is refused with 429 where there is no room; one that has ended is forgotten as any other state.
Nothing of a job outlives the process.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from typing import TYPE_CHECKING

import structlog

from upstream.kept.budget import KEY, WHOLE, Scope, weight
from upstream.tasks import spawn
from wire.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from upstream.kept.budget import Budget
    from upstream.turns.answer import Event
    from upstream.turns.run import Run

_log = structlog.get_logger("upstream")
_ENDED = 1024
"""Jobs without events to keep are bounded by number."""
_TOO_MANY = 429


class Job:
    """One of them. Its events are kept when it was asked for as a stream; event n has the number n."""

    def __init__(self, run: Run, forget: Callable[[Job], None]) -> None:
        self.run, self._forget = run, forget
        self.id, self.owner = run.turn.answer.id, run.turn.owner
        self.streamed = run.turn.request.fields.stream is True
        self.ended = False
        self.bytes = 0
        self._events: list[Event] = []
        self._news = asyncio.Event()

    async def follow(self, after: int = -1) -> AsyncGenerator[Event, None]:
        """Events with a number above `after`: those that were, then those that come, to the end."""
        at = after + 1
        while True:
            while at < len(self._events):
                yield self._events[at]
                at += 1
            if self.ended or not self.streamed:
                return
            await self._news.wait()

    def tell(self, *events: Event) -> int:
        """Keep events, and wake those who follow; how many bytes more are kept now."""
        if not self.streamed:
            return 0
        self._events += events
        more = sum(len(event.data) for event in events)
        self.bytes += more
        self._wake()
        return more

    def end(self) -> None:
        """Nothing more comes."""
        self.ended = True
        self._wake()

    def lose(self) -> None:
        """Keep its events no longer, and let those who follow go."""
        self.streamed, self._events, self.bytes = False, [], 0
        self._wake()

    def evict(self) -> None:
        """Forget it: a budget is exceeded. Only one that has ended can be."""
        self._forget(self)

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()


class Jobs:
    """All of them. `log` is told of every one that has ended, and when it was asked for (monotonic seconds)."""

    def __init__(
        self, *, places: int, waiting: int, limit: int, budget: Budget, log: Callable[[Run, float], None]
    ) -> None:
        self._places = asyncio.Semaphore(places)
        self._budget = budget
        self._most, self._limit, self._log = places + waiting, limit, log
        self._bytes = 0
        self._jobs: dict[str, Job] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def start(self, run: Run) -> Job:
        """Begin a job as soon as there is a place. Raises `ApiError` 429 when too many, or too large ones, wait."""
        if len(self._tasks) >= self._most:
            raise _full("Too many responses are waiting to be made in the background.")
        job = Job(run, self._drop)
        if not self._budget.pin(job, weight(run.turn.context), _scopes(job)):
            raise _full("The responses that are being made in the background leave no room for one of this size.")
        self._jobs[job.id] = job
        self._bytes += job.tell(*run.turn.answer.queue())
        began = time.monotonic()
        task = self._tasks[job.id] = spawn(self._work(job), name="upstream-job")
        task.add_done_callback(lambda _: self._ended(job, began))
        return job

    def get(self, response_id: str, owner: bytes) -> Job | None:
        """The job of this response, if it is there and this owner's."""
        job = self._jobs.get(response_id)
        return job if job is not None and job.owner == owner else None

    async def cancel(self, job: Job) -> None:
        """End a job where it is; one that has ended stays as it is."""
        task = self._tasks.get(job.id)
        if task is not None:
            task.cancel()
            await asyncio.wait({task})

    async def forget(self, job: Job) -> None:
        """End a job and keep nothing of it."""
        await self.cancel(job)
        self._drop(job)

    async def close(self, patience: float) -> None:
        """Let jobs end by themselves for so many seconds, then end them."""
        if self._tasks:
            await asyncio.wait(self._tasks.values(), timeout=patience)
        for job in list(self._jobs.values()):
            await self.cancel(job)

    async def _work(self, job: Job) -> None:
        answer = job.run.turn.answer
        try:
            async with self._places, aclosing(job.run.events()) as events:
                async for event in events:
                    self._bytes += job.tell(event)
                    self._bound()
        except ApiError as error:  # of the engine, which took nothing
            self._bytes += job.tell(answer.fail("rate_limit_exceeded" if error.status == _TOO_MANY else "server_error"))
        except Exception as failure:  # noqa: BLE001 - whoever follows it is to learn of its end
            _log.error("turn_failed", error=type(failure).__name__)
            self._bytes += job.tell(answer.fail())

    def _ended(self, job: Job, began: float) -> None:
        del self._tasks[job.id]
        if job.run.turn.answer.status in {"queued", "in_progress"}:
            job.run.turn.answer.cancel()
        job.end()
        self._log(job.run, began)
        self._budget.hold(job, weight(job.run.turn.context), _scopes(job))
        self._bound()

    def _drop(self, job: Job) -> None:
        if self._jobs.pop(job.id, None) is not None:
            self._bytes -= job.bytes
            self._budget.release(job)

    def _bound(self) -> None:
        if self._bytes <= self._limit and len(self._jobs) <= self._most + _ENDED:
            return
        for job in [one for one in self._jobs.values() if one.ended]:
            self._drop(job)
            if self._bytes <= self._limit and len(self._jobs) <= self._most + _ENDED:
                return
        for job in self._jobs.values():
            self._bytes -= job.bytes
            job.lose()
            if self._bytes <= self._limit:
                return


def _scopes(job: Job) -> tuple[Scope, ...]:
    return Scope(KEY, job.owner), WHOLE


def _full(message: str) -> ApiError:
    return ApiError(_TOO_MANY, message, type="rate_limit_error", code="too_many_requests")
