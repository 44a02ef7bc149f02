"""Faults of turns by name, for whoever wants one without writing code. The table is docs/faults.md as well.

Each stands for a failure that clients of real services have met; `seen` is what a client of the sidecar is shown then.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import orjson

from upstream.scripted.faults import (
    Big,
    CloseAfter,
    EmptyOutput,
    ErrorAfter,
    ErrorFirst,
    Failed,
    Fault,
    Incomplete,
    Resealed,
    Silence,
    Spaced,
    Stray,
)
from upstream.scripted.steps import Pause, after
from wire.errors import ApiError, connection_limit, previous_not_found, server_error

if TYPE_CHECKING:
    from collections.abc import Callable

    from upstream.scripted.steps import Step
    from upstream.scripted.turn import Turn

BEGUN = 2
"""Events that begin an answer (`created`, `in_progress`) and show nothing of it."""
SPOKEN = 5
"""Events after which some of the answer was shown."""
BIG = 8 * 1024 * 1024
"""Bytes by which an answer is made big."""
_OTHER = orjson.dumps({"type": "response.in_progress", "response": {"id": "resp_of_another", "status": "in_progress"}})
_UNKNOWN = orjson.dumps({"type": "keepalive.unheard_of", "sequence_number": 1})
_NOTHING = "nothing"
_FAILED = "a stream ends in `response.failed`; without streaming 502 `link_lost`"
_LOST = "502 `link_lost`, which SDKs answer by another try of their own; it is not sent twice unasked"


@dataclass(frozen=True, slots=True)
class Late:
    """The answer pauses for some seconds after `after` events, and then goes on."""

    seconds: float
    after: int = 0

    def apply(self, steps: list[Step]) -> list[Step]:
        """The answer with a pause in it."""
        at = after(steps, self.after)
        return [*steps[:at], Pause(self.seconds), *steps[at:]]


class Choice(NamedTuple):
    """A fault of one turn: `make` makes it of the turn and the seconds of a pause; None where it cannot be had."""

    wire: str
    stands_for: str
    seen: str
    make: Callable[[Turn, float], Fault | None]


def _always(fault: Fault) -> Callable[[Turn, float], Fault | None]:
    return lambda _turn, _pause: fault


def _on_link(fault: Fault) -> Callable[[Turn, float], Fault | None]:
    return lambda turn, _pause: fault if turn.transport == "ws" else None


def _forgotten(turn: Turn, _pause: float) -> Fault | None:
    return ErrorFirst(previous_not_found(turn.parent)) if turn.parent else None


_OVERLOADED = ApiError(503, "The engine is overloaded.", type="server_error", code="server_is_overloaded")
_UNKNOWN_ID = ErrorFirst(ApiError(400, "Invalid previous_response_id."), "no_status")
_LIMITED = ApiError(429, "Slow down.", type="rate_limit_error", code="slow_down", headers={"retry-after": "1"})

TURNS: dict[str, Choice] = {
    "rate-limited": Choice(
        "an error frame with status 429 and `retry-after`, before any event",
        "a rate limit met on a link, where no HTTP status says so",
        "429 with `retry-after`",
        _always(ErrorFirst(_LIMITED)),
    ),
    "server-error": Choice(
        "an error frame with status 500, before any event",
        "a service that fails a turn",
        "500",
        _always(ErrorFirst(server_error("The server had an error."))),
    ),
    "overloaded": Choice(
        "`created`, `in_progress`, then an error frame without a status",
        "overload told inside an answer that has begun as a success",
        "503: the status waits until the answer shows something",
        _always(ErrorAfter(_OVERLOADED, BEGUN, "no_status")),
    ),
    "error-mid-answer": Choice(
        f"an error frame after {SPOKEN} events",
        "a service that fails while it speaks",
        "a stream ends in `event: error`; without streaming 500",
        _always(ErrorAfter(server_error("The server had an error."), SPOKEN)),
    ),
    "forgotten": Choice(
        "`previous_response_not_found` to a turn that names a previous response",
        "a service that restarted, or that keeps responses for a short time",
        _NOTHING + ": the whole turn is sent once more (`upstream_forgot`)",
        _forgotten,
    ),
    "forgotten-plainly": Choice(
        "the same without code and status, only its message",
        "services that name this error in words alone",
        _NOTHING + ", as above",
        lambda turn, _pause: _UNKNOWN_ID if turn.parent else None,
    ),
    "connection-limit": Choice(
        "`websocket_connection_limit_reached` before any event, then close code 1000",
        "the hour after which services end connections",
        _NOTHING + ": the whole turn is sent once more on another link (`link_retired`)",
        _on_link(ErrorFirst(connection_limit(60), close=1000)),
    ),
    "reset-before": Choice(
        "the connection is reset before any event",
        "a network or a server that goes away once a turn was sent; nobody knows whether the turn runs",
        _LOST,
        _always(CloseAfter(0)),
    ),
    "close-before": Choice(
        "close code 1011 before any event",
        "a server that gives up a connection instead of an answer",
        _LOST,
        _always(CloseAfter(0, 1011)),
    ),
    "reset-mid-answer": Choice(
        f"the connection is reset after {SPOKEN} events",
        "a network that goes away while an answer is read",
        _FAILED,
        _always(CloseAfter(SPOKEN)),
    ),
    "close-mid-answer": Choice(
        f"close code 1000 after {SPOKEN} events",
        "a clean close that is not the end of the answer, and was taken for it",
        _FAILED,
        _always(CloseAfter(SPOKEN, 1000)),
    ),
    "close-after": Choice(
        "close code 1001 right after the answer",
        "idle connections that balancers and deployments close",
        _NOTHING + ": the next turn goes over another link",
        _on_link(CloseAfter(None, 1001)),
    ),
    "silent": Choice(
        "no event at all, while pings are answered",
        "a service that takes a turn and is never heard of again",
        "a stream is kept alive by comments, until `--first-event-timeout` (`upstream_late`) or the client gives up",
        _always(Silence()),
    ),
    "stalled": Choice(
        f"no event after the first {SPOKEN}, while pings are answered",
        "an answer that stops in its middle",
        "the answer so far, then comments, until `--event-timeout` (`upstream_late`) or the client gives up",
        _always(Silence(SPOKEN)),
    ),
    "late": Choice(
        "a pause (`--pause`) before any event",
        "a queue before the model, beyond what idle timeouts of clients allow",
        "a stream begins with comments after 15 s; the answer follows",
        lambda _turn, pause: Late(pause),
    ),
    "pausing": Choice(
        f"a pause (`--pause`) after {SPOKEN} events",
        "a model that thinks long between two events",
        "comments between two events after 15 s; the answer goes on",
        lambda _turn, pause: Late(pause, SPOKEN),
    ),
    "failed": Choice(
        "the answer ends in `response.failed`",
        "a model that fails",
        "the same; without streaming 200 with that response, as the API has it",
        _always(Failed()),
    ),
    "incomplete": Choice(
        "the answer ends in `response.incomplete`",
        "an answer cut by its limit of tokens",
        "the same; nothing continues it",
        _always(Incomplete()),
    ),
    "empty-output": Choice(
        "the last event has `output: []`, its items were told one by one before",
        "services that leave the output out of the last event",
        "a stream as it came; without streaming the output is put together",
        _always(EmptyOutput()),
    ),
    "resealed": Choice(
        "the last event has other `encrypted_content` than the item's own event",
        "reasoning that is encrypted twice",
        _NOTHING + ": both forms count as an echo",
        _always(Resealed()),
    ),
    "unknown-event": Choice(
        "an event of an unheard-of type between two events",
        "keep-alive and metadata events of some services",
        "the event as it came",
        _always(Stray(_UNKNOWN, BEGUN)),
    ),
    "not-json": Choice(
        f"a text frame that is no JSON after {SPOKEN} events",
        "middle boxes that break messages",
        _FAILED + "; the link ends",
        _on_link(Stray(after=SPOKEN)),
    ),
    "binary": Choice(
        f"a binary frame after {SPOKEN} events",
        "the same",
        _FAILED + "; the link ends",
        _on_link(Stray(b"\0", SPOKEN, binary=True)),
    ),
    "mixed-up": Choice(
        f"an event of another response after {SPOKEN} events",
        "services that mix up answers: whoever trusts them shows one client another one's answer",
        _FAILED + "; the link ends",
        _on_link(Stray(_OTHER, SPOKEN)),
    ),
    "one-too-many": Choice(
        "a further event after the last one",
        "the tail of an answer that is read as the head of the next",
        _NOTHING + ": the link ends, the next turn goes over another",
        _on_link(Stray(_OTHER)),
    ),
    "spaced": Choice(
        "every event with newlines between its tokens",
        "JSON that is legal and breaks the lines of an event stream",
        "the same JSON in one line",
        _always(Spaced()),
    ),
    "big": Choice(
        f"the last event is {BIG >> 20} MiB longer",
        "images in the output, beyond the limits of WebSocket libraries",
        "all of it",
        _always(Big(BIG)),
    ),
}
