"""Running of an admitted turn: engine parts in, events out."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING

import structlog

from upstream.engine import Stop
from wire.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from upstream.admit import Admission, Turn
    from upstream.answer import Event
    from upstream.engine import Engine, Part
    from upstream.lane import Kept

_log = structlog.get_logger("upstream")
_TOO_MANY = 429


class Run:
    """One turn while it runs. `kept` is set just before the terminal event: what can be continued then, can."""

    def __init__(self, turn: Turn, *, engine: Engine, admission: Admission, now: Callable[[], int]) -> None:
        self.turn, self._engine, self._admission, self._now = turn, engine, admission, now
        self.kept: Kept | None = None
        self._failure = "server_error"

    async def events(self) -> AsyncGenerator[Event, None]:
        """All events, the terminal one last. A failing engine ends in `response.failed`, never in an exception.

        Only what the engine refuses before it takes the turn raises `ApiError`, and then before any event.
        """
        try:
            async with aclosing(self._events()) as events:
                async for event in events:
                    yield event
        finally:  # also when the client has left: what was written was written for it
            self._admission.gate.spent(self.turn.owner, self.turn.answer.output_tokens)

    async def _events(self) -> AsyncGenerator[Event, None]:
        answer = self.turn.answer
        if self.turn.prompt is None:
            await self._warm()
            for event in answer.begin():
                yield event
            yield self._ended(Stop())
            return
        async with aclosing(self._engine.generate(self.turn.prompt)) as parts:
            first = await self._next(parts, refuses=True)
            for event in answer.begin():
                yield event
            part = first
            while part is not None:
                try:
                    events = answer.add(part)
                except RuntimeError:
                    _log.warning("engine_failed", error="OutOfOrder", response_id=answer.id)
                    break
                for event in events:
                    yield event
                if isinstance(part, Stop):
                    yield self._ended(part)
                    return
                part = await self._next(parts)
        yield answer.fail(self._failure)

    async def _next(self, parts: AsyncGenerator[Part, None], *, refuses: bool = False) -> Part | None:
        """The next part; None after a failure, which is logged."""
        try:
            return await anext(parts)
        except Exception as failure:
            if isinstance(failure, ApiError):
                if refuses:
                    raise
                self._failure = "rate_limit_exceeded" if failure.status == _TOO_MANY else "server_error"
            _log.warning("engine_failed", error=type(failure).__name__, response_id=self.turn.answer.id)
            return None

    async def _warm(self) -> None:
        if self.turn.warm is None:
            return
        try:
            await self._engine.warm(self.turn.warm)
        except Exception as failure:  # noqa: BLE001 - a cold engine answers as well
            _log.warning("warming_failed", error=type(failure).__name__, response_id=self.turn.answer.id)

    def _ended(self, stop: Stop) -> Event:
        terminal = self.turn.answer.finish(stop, self._now())
        self.kept = self._admission.settle(self.turn)
        return terminal
