"""From a link to the client: one turn's events, until its end or a refusal that allows another try."""

from __future__ import annotations

from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING

from proxy.answer import Answer, OutOfOrder, Phase, Step
from proxy.link import Link, LinkEnded
from proxy.recovery import Refusal, refusal
from wire import sse
from wire.errors import ApiError, server_error

if TYPE_CHECKING:
    from collections.abc import Callable

    from aiohttp import web

    from proxy.client import ClientSide
    from telemetry.turn import TurnRecord

_REFUSED = "The upstream could not continue the conversation. Try again."
_LOST = "The connection to the upstream was lost before the answer ended."


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds: how long the status is held after the first event, and how long a stream may be silent."""

    hold: float
    silence: float


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
        self._pending: list[bytes] = []

    async def run(self) -> web.StreamResponse | Refusal:
        """The finished HTTP answer, or the refusal after which nothing was shown."""
        deadline = self._written + self._timing.silence
        while True:
            frame = self._link.arrived()
            if frame is not None:
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
                        deadline = monotonic() + self._timing.hold
                done = await self._step(step, silent=silent)
                if done is not None:
                    return done
                continue
            if self._client.opened and self._pending:
                await self._flush()
                deadline = monotonic() + self._timing.silence
            try:
                arrived = await self._link.wait(deadline if self._streamed else None)
            except LinkEnded:
                return await self._lost()
            if not arrived:
                await self._keep_alive()
                deadline = monotonic() + self._timing.silence

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

    async def _failed(self, error: ApiError, *, silent: bool) -> web.StreamResponse | Refusal:
        self._record.upstream_error = error.code or error.type
        found = refusal(error, chained=self._chained)
        if found is not None:
            if silent and not self._client.opened and self._may_retry:
                return found
            # What the client never caused is not what it is told: another try of its own is all that it can do.
            self._record.error = "upstream_refused"
            error = server_error(_REFUSED, status=503, code="upstream_refused")
        if not self._client.opened:
            return await self._client.error(error)
        self._pending.append(sse.encode("error", error.sse_data(self._answer.next_sequence)))
        await self._flush()
        return await self._client.end()

    async def _lost(self) -> web.StreamResponse:
        """The link is gone and the answer is not whole. The turn may have run, so it is not sent again."""
        if not self._client.opened:
            return await lost(self._client, self._record)
        self._record.error = "link_lost"
        failed = self._answer.failed_event(_LOST)
        if failed is None:
            error = server_error(_LOST, code="link_lost")
            self._pending.append(sse.encode("error", error.sse_data(self._answer.next_sequence)))
        else:
            self._pending.append(sse.encode("response.failed", failed))
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


async def lost(client: ClientSide, record: TurnRecord) -> web.StreamResponse:
    """Tell a client that has seen nothing yet that its turn may or may not have run."""
    record.error = "link_lost"
    return await client.error(server_error(_LOST, status=502, code="link_lost"))
