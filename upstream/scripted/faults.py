"""Faults that an upstream, or the network before it, shows: each a pure rewriting of the steps of one answer.

Counts are of events, from the start of the answer: `after=0` is before any event.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

import orjson

from upstream.scripted.steps import Binary, Close, Hang, Reset, Step, Text, Wait, after
from wire.events import TERMINAL

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from wire.errors import ApiError

Json = dict[str, Any]
Style = Literal["nested", "no_status", "flat", "untyped"]


class Fault(Protocol):
    """Anything that turns the steps of an answer into other steps."""

    def apply(self, steps: list[Step]) -> list[Step]:
        """The steps with this fault in them."""
        ...


@dataclass(frozen=True, slots=True)
class RefuseUpgrade:
    """The handshake is answered by plain HTTP. Real for 400, 401, 403, 404, 405, 426, 429, 501 and 5xx."""

    status: int
    body: bytes = b'{"error":{"message":"refused","type":"invalid_request_error","param":null,"code":null}}'
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ErrorFirst:
    """An error frame before any event; on HTTP the status and body of an error.

    Styles other than `nested` are what clones of the API send. With `close` the connection then ends with that
    code, as services do after the connection limit; without, it goes on.
    """

    error: ApiError
    style: Style = "nested"
    close: int | None = None

    def apply(self, steps: list[Step]) -> list[Step]:
        """The error instead of the answer."""
        del steps
        ending: list[Step] = [] if self.close is None else [Close(self.close)]
        return [Text(error_frame(self.error, self.style)), *ending]


@dataclass(frozen=True, slots=True)
class ErrorAfter:
    """The answer breaks off in an error event after `after` events; the connection goes on."""

    error: ApiError
    after: int
    style: Style = "nested"

    def apply(self, steps: list[Step]) -> list[Step]:
        """The beginning of the answer, then the error."""
        return [*steps[: after(steps, self.after)], Text(error_frame(self.error, self.style))]


@dataclass(frozen=True, slots=True)
class CloseAfter:
    """The connection ends after `after` events (None: after the whole answer) with a code; without one by TCP RST.

    Real before, within and after an answer. A code of 1000 within an answer is rare, but was seen.
    """

    after: int | None = 0
    code: int | None = None

    def apply(self, steps: list[Step]) -> list[Step]:
        """The beginning of the answer, then the end of the connection."""
        end = len(steps) if self.after is None else after(steps, self.after)
        return [*steps[:end], Reset() if self.code is None else Close(self.code)]


@dataclass(frozen=True, slots=True)
class Silence:
    """No word after `after` events, while the connection stays and pings are answered."""

    after: int = 0

    def apply(self, steps: list[Step]) -> list[Step]:
        """The beginning of the answer, then nothing."""
        return [*steps[: after(steps, self.after)], Hang()]


@dataclass(frozen=True, slots=True)
class Hold:
    """A pause after `after` events until the test sets `gate`; `reached` tells the test that it has begun."""

    gate: asyncio.Event
    after: int = 0
    reached: asyncio.Event | None = None

    def apply(self, steps: list[Step]) -> list[Step]:
        """The answer with a pause in it."""
        at = after(steps, self.after)
        return [*steps[:at], Wait(self.gate, self.reached), *steps[at:]]


@dataclass(frozen=True, slots=True)
class EmptyOutput:
    """The terminal event says `output: []`; the items were told by `output_item.done` only. Seen at one service."""

    def apply(self, steps: list[Step]) -> list[Step]:
        """The answer with an empty terminal output."""
        return _edit_end(steps, lambda response: response | {"output": []})


@dataclass(frozen=True, slots=True)
class Resealed:
    """The terminal event carries other `encrypted_content` than `output_item.done` did, for the same reasoning."""

    suffix: str = "-again"

    def apply(self, steps: list[Step]) -> list[Step]:
        """The answer with its reasoning sealed anew at the end."""

        def reseal(item: Json) -> Json:
            sealed = item.get("encrypted_content")
            return item | {"encrypted_content": sealed + self.suffix} if isinstance(sealed, str) else item

        return _edit_end(steps, lambda response: response | {"output": [reseal(item) for item in response["output"]]})


@dataclass(frozen=True, slots=True)
class Incomplete:
    """The answer ends as `response.incomplete`. Its items are said as completed, which a real service would not."""

    reason: str = "max_output_tokens"

    def apply(self, steps: list[Step]) -> list[Step]:
        """The answer with another end."""
        details = {"status": "incomplete", "incomplete_details": {"reason": self.reason}}
        return _edit_end(steps, lambda response: response | details, "response.incomplete")


@dataclass(frozen=True, slots=True)
class Failed:
    """The answer ends as `response.failed`."""

    code: str = "server_error"
    message: str = "The model failed."

    def apply(self, steps: list[Step]) -> list[Step]:
        """The answer with another end."""
        details = {"status": "failed", "error": {"code": self.code, "message": self.message}}
        return _edit_end(steps, lambda response: response | details, "response.failed")


@dataclass(frozen=True, slots=True)
class Stray:
    """A frame that belongs to nothing, after `after` events; None: after the answer, on an idle connection.

    Real as keep-alive or metadata event of an unknown type, and as the tail of another answer on a service that
    mixes them up; text that is no JSON, the default, and binary frames come from broken middle boxes only.
    """

    frame: bytes = b"{not json"
    after: int | None = None
    binary: bool = False

    def apply(self, steps: list[Step]) -> list[Step]:
        """The answer with the frame in it."""
        at = len(steps) if self.after is None else after(steps, self.after)
        return [*steps[:at], Binary(self.frame) if self.binary else Text(self.frame), *steps[at:]]


@dataclass(frozen=True, slots=True)
class Spaced:
    """Every event is written with newlines and spaces between its tokens: legal, and done by no known service."""

    def apply(self, steps: list[Step]) -> list[Step]:
        """The answer pretty-printed."""

        def spaced(step: Step) -> Step:
            if not isinstance(step, Text):
                return step
            return Text(orjson.dumps(orjson.loads(step.data), option=orjson.OPT_INDENT_2))

        return [spaced(step) for step in steps]


@dataclass(frozen=True, slots=True)
class Big:
    """The terminal event is `size` bytes longer. Real with images in the output; here the bytes are padding."""

    size: int

    def apply(self, steps: list[Step]) -> list[Step]:
        """The answer with a big last event."""
        return _edit_end(steps, lambda response: response | {"padding": "x" * self.size})


def error_frame(error: ApiError, style: Style) -> bytes:
    """The error as a text frame in one of the shapes in use."""
    if style == "flat":
        return error.sse_data(0)
    frame = error.ws_frame()
    hidden = {"nested": set[str](), "no_status": {"status"}, "untyped": {"status", "type"}}[style]
    return orjson.dumps({key: value for key, value in orjson.loads(frame).items() if key not in hidden})


def _edit_end(steps: list[Step], edit: Callable[[Json], Json], kind: str | None = None) -> list[Step]:
    """The steps with the response of the terminal event edited, and the event's type when `kind` is given.

    An answer that other faults have left without a terminal response stays as it is.
    """
    return [_edited(step, edit, kind) for step in steps]


def _edited(step: Step, edit: Callable[[Json], Json], kind: str | None) -> Step:
    if not isinstance(step, Text):
        return step
    try:
        event = orjson.loads(step.data)
    except orjson.JSONDecodeError:
        return step
    if event.get("type") not in TERMINAL or not isinstance(event.get("response"), dict):
        return step
    return Text(orjson.dumps(event | {"response": edit(event["response"])} | ({"type": kind} if kind else {})))
