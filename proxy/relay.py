"""From a link to the client: one turn's events, until its end or a refusal that allows another try."""

from __future__ import annotations

import math
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING

from proxy.answer import Answer, OutOfOrder, Phase, Step
from proxy.link import Link, LinkEnded
from proxy.recovery import OWN, REPLAYED, Came, Does, Refusal, When, does, refusal
from telemetry.reasons import word
from wire import sse

if TYPE_CHECKING:
    from collections.abc import Callable

    from aiohttp import web

    from proxy.client import ClientSide
    from telemetry.turn import TurnRecord
    from wire.errors import ApiError


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds: how long the status is held after the first event, and how long a stream may be silent.

    `first_event` and `event` bound the wait for the first event and for each further one; 0 is for ever. `replays`:
    whether a turn is sent again whose link died before any event.
    """

    hold: float
    silence: float
    first_event: float = 0.0
    event: float = 0.0
    replays: bool = False


class Relay:
    """Relays one turn. `chained`: the frame named a previous response; `may_retry`: one refusal may be returned.

    `on_end` is called when the terminal event is read, before the client is shown it.
    """

    def __init__(
        self,
        link: Link,
        answer: Answer,
        client: ClientSide,
        record: TurnRecord,
        *,
        streamed: bool,
        chained: bool,
        may_retry: bool,
        timing: Timing,
        on_end: Callable[[], None],
    ) -> None:
        self._link = link
        self._answer = answer
        self._client = client
        self._record = record
        self._streamed = streamed
        self._chained = chained
        self._may_retry = may_retry
        self._timing = timing
        self._on_end = on_end
        self._written = monotonic()
        self._deadline = self._written + timing.silence
        self._pending: list[bytes] = []

    async def run(self) -> web.StreamResponse | Refusal:
        """The finished HTTP answer, or the refusal after which nothing was shown."""
        late, heard = _end(self._written, self._timing.first_event), False
        while True:
            while (frame := self._link.arrived()) is not None:
                heard = True
                if (done := await self._taken(frame)) is not None:
                    return done
            if self._client.opened and self._pending:
                await self._flush()
                self._deadline = monotonic() + self._timing.silence
            if heard:  # what a slow client took is no silence of the upstream
                late, heard = _end(monotonic(), self._timing.event), False
            try:
                arrived = await self._link.wait(min(self._deadline, late) if self._streamed else late)
            except LinkEnded:
                return await self._lost()
            if not arrived and monotonic() >= late:
                self._link.end("event_timeout")
                return await self._lost(Came.LATE)
            if not arrived:
                await self._keep_alive()
                self._deadline = monotonic() + self._timing.silence

    async def _taken(self, frame: bytes) -> web.StreamResponse | Refusal | None:
        """Read one event and pass it on; the outcome when it was the last."""
        silent = self._answer.phase is Phase.SILENT
        try:
            step = self._answer.take(frame)
        except OutOfOrder:
            self._link.end("out_of_order")
            return await self._lost()
        self._record.events += 1
        if self._answer.events == 1:
            self._record.first_event_s = monotonic() - self._written
            if not self._client.opened:
                self._deadline = monotonic() + self._timing.hold
        return await self._step(step, silent=silent)

    async def _step(self, step: Step, *, silent: bool) -> web.StreamResponse | Refusal | None:
        """Pass one event on; the outcome when it was the last. `silent`: the turn had not begun before it."""
        if self._answer.phase is Phase.ENDED:
            self._on_end()
        if step.error is not None:
            return await self._failed(step.error, silent=silent)
        if not self._streamed:
            return await self._client.json(self._answer.response()) if self._answer.phase is Phase.ENDED else None
        if step.before is not None:
            self._pending.append(sse.encode(step.before.type, step.before.frame))
        self._pending.append(sse.encode(step.type, step.frame))
        if self._answer.phase >= Phase.SPEAKING and not self._client.opened:
            await self._flush()
        if self._answer.phase is Phase.ENDED:
            await self._flush()
            return await self._client.end()
        return None

    def _when(self, *, silent: bool) -> When:
        if self._client.opened:
            return When.SHOWN
        return When.SILENT if silent else When.BEGUN

    def _does(self, came: Came, *, silent: bool) -> Does:
        replays = self._timing.replays and self._link.ended != "too_large"  # the same frame would end the next one
        return does(came, self._when(silent=silent), may_retry=self._may_retry, replays=replays)

    async def _failed(self, error: ApiError, *, silent: bool) -> web.StreamResponse | Refusal:
        self._record.upstream_error = word(error.code or error.type)
        found = refusal(error, chained=self._chained)
        came = Came.ERROR if found is None else Came.REFUSED
        done = self._does(came, silent=silent)
        if found is not None:
            if done is Does.AGAIN:
                return found
            error = self._own(came)
        return await self._told(error, done)

    async def _lost(self, came: Came = Came.ENDED) -> web.StreamResponse | Refusal:
        """The link is gone and the answer is not whole. The turn may have run."""
        done = self._does(came, silent=self._answer.phase is Phase.SILENT)
        return REPLAYED if done is Does.AGAIN else await self._told(self._own(came), done)

    def _own(self, came: Came) -> ApiError:
        error = OWN[came]
        self._record.error = error.code or ""
        return error

    async def _told(self, error: ApiError, done: Does) -> web.StreamResponse:
        if done is Does.STATUS:
            return await self._client.error(error)
        failed = self._answer.failed_event(error.message) if done is Does.FAILED else None
        if failed is not None:
            self._pending.append(sse.encode("response.failed", failed))
        else:
            self._pending.append(sse.encode("error", error.sse_data(self._answer.next_sequence)))
        await self._flush()
        return await self._client.end()

    async def _flush(self) -> None:
        chunk = b"".join(self._pending)
        self._pending.clear()
        if chunk:
            await self._client.write(chunk)

    async def _keep_alive(self) -> None:
        if self._pending:
            await self._flush()
        else:
            await self._client.comment()


def _end(begun: float, limit: float) -> float:
    return begun + limit if limit else math.inf
