"""What the scripted upstream plays: one `Play` per turn, given by a list or decided by a function."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson

from upstream.scripted.answers import answer, events_of
from upstream.scripted.steps import Step, Text

if TYPE_CHECKING:
    from upstream.scripted.faults import Fault
    from upstream.scripted.turn import Turn
    from wire.errors import ApiError

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Accept:
    """How a connection is accepted: further headers of the 101 answer, compression, and whether pings are answered.

    A peer that answers no ping is a half-open connection: the other side has gone without a word.
    """

    headers: dict[str, str] = field(default_factory=dict)
    deflate: bool = False
    answer_pings: bool = True


@dataclass(frozen=True, kw_only=True)
class Play:
    """The answer to one turn. Of `error`, `events`, `response` and `items` the first one given counts.

    `events` go out as they are, dicts as compact JSON in raw UTF-8, bytes untouched. `response` is a whole
    response object, from which the events are made. `items` are output items, the rest made for them.
    `headers` are those of an HTTP answer. `faults` apply in order.
    """

    items: Sequence[Mapping[str, Any]] = ()
    response: Mapping[str, Any] | None = None
    events: Sequence[Mapping[str, Any] | bytes] | None = None
    error: ApiError | None = None
    faults: Sequence[Fault] = ()
    headers: Mapping[str, str] = field(default_factory=dict)

    def steps(self, turn: Turn, response_id: str) -> list[Step]:
        """What the connection has to do; `response_id` serves where the play names none."""
        steps: list[Step] = [Text(frame) for frame in self._frames(turn, response_id)]
        for fault in self.faults:
            steps = fault.apply(steps)
        return steps

    def _frames(self, turn: Turn, response_id: str) -> Iterable[bytes]:
        if self.error is not None:
            return [self.error.ws_frame()]
        events = self.events
        if events is None and self.response is not None:
            events = events_of(self.response)
        if events is None:
            tokens = sum(len(item.raw) for item in turn.context) // 4
            events = answer(self.items, response_id=response_id, request=turn.body, input_tokens=tokens)
        return [event if isinstance(event, bytes) else orjson.dumps(event) for event in events]


Decide = Callable[["Turn"], Play | Awaitable[Play]]
Script = Decide | Iterable[Play]


def as_function(script: Script) -> Decide:
    """The script as a function. A list that is used up raises `ScriptEnded`."""
    if callable(script):
        return script
    plays = iter(script)

    def following(_: Turn) -> Play:
        for play in plays:
            return play
        raise ScriptEnded

    return following


class ScriptEnded(Exception):
    """More turns came than the script has answers for."""
