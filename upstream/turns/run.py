"""Running of an admitted turn: engine parts in, events out, and its outcome into the books."""

from __future__ import annotations

import time
from contextlib import aclosing
from typing import TYPE_CHECKING, NamedTuple

import structlog

from upstream.engine import Accepted, Stop, Usage
from upstream.settling.outcome import Outcome
from wire.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from upstream.engine import Engine, Part
    from upstream.kept.recall import Recall
    from upstream.settling.books import Books
    from upstream.turns.admit import Admission, Turn
    from upstream.turns.answer import Event
    from upstream.turns.asked import Kept

_log = structlog.get_logger("upstream")
_TOO_MANY = 429


class Server(NamedTuple):
    """What all turns of a server share. `now` is in seconds since 1970, `clock` in seconds of any clock."""

    engine: Engine
    admission: Admission
    books: Books
    recall: Recall
    now: Callable[[], int]
    clock: Callable[[], float] = time.monotonic


class Run:
    """One turn while it runs. `kept` is set just before the terminal event: what can be continued then, can.

    It came over `transport` (`http`, `websocket`, `background`) and was received at `began`, of the server's clock.
    """

    def __init__(self, turn: Turn, server: Server, transport: str, began: float) -> None:
        self.turn, self._server, self._transport, self.began = turn, server, transport, began
        self.kept: Kept | None = None
        self._failure = "server_error"
        self._start: float | None = None
        self._first: float | None = None
        self._told = False

    async def events(self) -> AsyncGenerator[Event, None]:
        """All events, the terminal one last. A failing engine ends in `response.failed`, never in an exception.

        Only what the engine refuses before it takes the turn raises `ApiError`, and then before any event.
        """
        await self._server.books.room()
        try:
            async with aclosing(self._events()) as events:
                async for event in events:
                    yield event
        except ApiError:
            self._account("refused")
            raise
        except Exception:
            self._account("failed")
            raise
        finally:  # also when the client has left: what was written was written for it
            self._server.admission.gate.spent(self.turn.owner, self.turn.answer.output_tokens)
            self._account("cancelled" if self._transport == "background" else "abandoned")

    async def _events(self) -> AsyncGenerator[Event, None]:
        answer = self.turn.answer
        self._start = self._server.clock()
        if self.turn.prompt is None:
            await self._warm()
            for event in answer.begin():
                yield event
            yield self._ended(Stop())
            return
        async with aclosing(self._server.engine.generate(self.turn.prompt)) as parts:
            first = await self._next(parts, refuses=True)
            for event in answer.begin():
                yield event
            part = first
            while part is not None:
                if self._first is None and not isinstance(part, Accepted):
                    self._first = self._server.clock()
                try:
                    events = answer.add(part)
                except RuntimeError:
                    self._failed("out_of_order", "OutOfOrder")
                    break
                for event in events:
                    yield event
                if isinstance(part, Stop):
                    yield self._ended(part)
                    return
                part = await self._next(parts)
        terminal = answer.fail(self._failure)
        self._account("failed")
        yield terminal

    async def _next(self, parts: AsyncGenerator[Part, None], *, refuses: bool = False) -> Part | None:
        """The next part; None after a failure, which is logged."""
        try:
            return await anext(parts)
        except Exception as failure:
            kind = "ended_early" if isinstance(failure, StopAsyncIteration) else "crashed"
            if isinstance(failure, ApiError):
                if refuses:
                    self._server.books.engine_failed("refused")
                    raise
                limited = failure.status == _TOO_MANY
                self._failure = "rate_limit_exceeded" if limited else "server_error"
                kind = "rate_limited" if limited else "error"
            self._failed(kind, type(failure).__name__)
            return None

    def _failed(self, kind: str, error: str) -> None:
        self._server.books.engine_failed(kind)
        _log.warning("engine_failed", error=error, response_id=self.turn.answer.id)

    async def _warm(self) -> None:
        if self.turn.warm is None:
            return
        try:
            await self._server.engine.warm(self.turn.warm)
        except Exception as failure:  # noqa: BLE001 - a cold engine answers as well
            self._server.books.engine_failed("warming")
            _log.warning("warming_failed", error=type(failure).__name__, response_id=self.turn.answer.id)

    def _ended(self, stop: Stop) -> Event:
        terminal = self.turn.answer.finish(stop, self._server.now())
        self.kept = self._server.admission.settle(self.turn)
        self._account(self.turn.answer.status)
        return terminal

    def _account(self, status: str) -> None:
        """Tell the books of the end of the turn: the first one that is told counts."""
        if self._told:
            return
        self._told = True
        answer = self.turn.answer
        at = self._server.clock() - self.began
        outcome = Outcome(
            response_id=answer.id,
            owner=self.turn.owner,
            transport=self._transport,
            status=status,
            model=self.turn.request.model,
            usage=answer.usage if status != "refused" else Usage(0),
            ended_at=self._server.now(),
            seconds=at,
            start_s=self._start - self.began if self._start is not None else None,
            first_token_s=self._first - self.began if self._first is not None else None,
        )
        self._server.books.ended(outcome)
