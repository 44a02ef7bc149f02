"""The script of a recording: the upstream answers as the mock did, whichever way a turn arrives."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from bench.trace import HttpRequest, HttpResponse, Json, WsAnswer, event_bytes
from upstream.scripted import Call, Play, Reply, Turn, compare, events_of
from upstream.scripted.faults import CloseAfter, Fault, Hold
from wire.errors import from_frame, invalid_request, server_error

if TYPE_CHECKING:
    from collections.abc import Iterable

BASE_PATH = "/v1"
"""Path of the upstream's base URL."""
_BROKEN = 1011


@dataclass(slots=True)
class Pending:
    """Something that the client has sent. Its answer waits for `gate`."""

    n: int
    body: bytes
    answer: HttpResponse | WsAnswer
    request: HttpRequest | None = None
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    turns: list[Turn] = field(default_factory=list)
    """What arrived for it at the upstream: more than one turn when it was tried again."""
    calls: list[Call] = field(default_factory=list)
    """The same for a request that is no turn."""


class Recorded:
    """Answers turns and other requests with what was recorded for them."""

    def __init__(self) -> None:
        self._pending: dict[int, Pending] = {}

    def sent(self, pending: Pending) -> None:
        """The client is about to send this."""
        self._pending[pending.n] = pending

    def answered(self, n: int) -> None:
        """The client has its answer."""
        del self._pending[n]

    def play(self, turn: Turn) -> Play:
        """The recorded answer to the turn."""
        pending = self._meant(turn)
        if pending is None:
            return Play(error=server_error("Nothing is recorded for this turn."))
        pending.turns.append(turn)
        faults: list[Fault] = [Hold(pending.gate)]
        if isinstance(pending.answer, WsAnswer):
            return Play(events=[event_bytes(event) for event in pending.answer.events], faults=faults)
        return _http_play(pending.answer, turn, faults)

    def reply(self, call: Call) -> Reply:
        """The recorded answer to a request to another endpoint. One outside the base path may arrive below it."""
        for path in (call.path, call.path.removeprefix(BASE_PATH)):
            for pending in self._pending.values():
                request, answer = pending.request, pending.answer
                if request is None or (request.method, request.path) != (call.method, path):
                    continue
                if isinstance(answer, HttpResponse) and answer.body is not None:
                    pending.calls.append(call)
                    return Reply(answer.status, answer.body)
        return Reply(404, invalid_request("Nothing is recorded for this request.", status=404).http_body())

    def _meant(self, turn: Turn) -> Pending | None:
        """Which of the running requests this turn was sent for: by its context when there are several."""
        turns = [pending for pending in self._pending.values() if pending.request is None or pending.request.is_turn]
        fresh = [pending for pending in turns if not pending.turns] or turns
        if len(fresh) > 1:
            fresh = [pending for pending in turns if not compare(turn, pending.body)] or fresh
        return next((pending for pending in fresh if not pending.turns), fresh[0] if fresh else None)


def expected_events(answer: HttpResponse, parent: str | None) -> list[Json]:
    """The events of a recorded answer, with the parent's id as the API would echo it."""
    events: Iterable[Json] = answer.events if answer.events is not None else events_of(answer.response or {})
    return [_with_parent(event, parent) for event in events]


def _http_play(answer: HttpResponse, turn: Turn, faults: list[Fault]) -> Play:
    if answer.body is not None:
        error = from_frame(json.loads(answer.body) | {"status": answer.status})
        return Play(error=error, faults=faults)
    events = expected_events(answer, turn.parent or None)
    if answer.cut:
        faults.append(CloseAfter(None, _BROKEN))
    return Play(events=[event_bytes(event) for event in events], faults=faults)


def _with_parent(event: Json, parent: str | None) -> Json:
    response: Any = event.get("response")
    if not isinstance(response, dict) or "previous_response_id" not in response:
        return event
    return event | {"response": response | {"previous_response_id": parent}}
