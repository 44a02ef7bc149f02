"""Running of an admitted turn: engine parts in, events out."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING

import structlog

from upstream.engine import Stop

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from upstream.admit import Admission, Turn
    from upstream.answer import Event
    from upstream.engine import Engine
    from upstream.lane import Kept

_log = structlog.get_logger("upstream")


class Run:
    """One turn while it runs. `kept` is set just before the terminal event: what can be continued then, can."""

    def __init__(self, turn: Turn, *, engine: Engine, admission: Admission, now: Callable[[], int]) -> None:
        self.turn, self._engine, self._admission, self._now = turn, engine, admission, now
        self.kept: Kept | None = None

    async def events(self) -> AsyncGenerator[Event, None]:
        """All events, the terminal one last. A failing engine ends in `response.failed`, never in an exception."""
        answer = self.turn.answer
        for event in answer.begin():
            yield event
        stop: Stop | None = Stop()
        if self.turn.prompt is not None:
            stop = None
            async with aclosing(self._engine.generate(self.turn.prompt)) as parts:
                while stop is None:
                    try:
                        part = await anext(parts)
                        events = answer.add(part)
                    except Exception as failure:  # noqa: BLE001 - an engine may fail in any way; the client is told
                        _log.warning("engine_failed", error=type(failure).__name__, response_id=answer.id)
                        break
                    for event in events:
                        yield event
                    if isinstance(part, Stop):
                        stop = part
        if stop is None:
            yield answer.fail()
            return
        terminal = answer.finish(stop, self._now())
        self.kept = self._admission.settle(self.turn)
        yield terminal
