"""One turn's answer as it arrives over a link: what phase it is in, and what remains of it in the end.

Theory. An answer moves through phases, never back:

    SILENT  --created, queued, in_progress-->  STARTED  --any other event-->  SPEAKING  --terminal-->  ENDED

Events that are none of the response (rate limits, keep-alives) are passed on and change no phase.
An `error` ends it from any phase. In SILENT it is a refusal: the upstream has started nothing, and the turn may be
sent again. From STARTED on the turn runs, and nothing is ever repeated. What does not fit (another response's id, a
lane that nobody named, an event after the end) means that the link's order is lost: `OutOfOrder`, and the link ends.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from wire.errors import ApiError, from_frame
from wire.events import (
    COMPLETED,
    HANDSHAKE,
    ITEM_DONE,
    NULL,
    PIECES,
    TERMINAL,
    Event,
    peek,
    restore_previous_id,
)
from wire.extensions import DONE, RESUMED
from wire.split import Malformed, elements, splice

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Phase = IntEnum("Phase", ["SILENT", "STARTED", "SPEAKING", "ENDED"])

_MAX_NUMBER = 2**53
"""Beyond it a JSON number is not the same to all readers (RFC 8259, 6); no figure of an answer comes near."""


class _Named(msgspec.Struct, gc=False):
    type: str | None = None
    call_id: str | None = None


_NAMED = msgspec.json.Decoder(_Named)


class OutOfOrder(Exception):
    """An event that cannot belong to the turn in flight."""


class Step(NamedTuple):
    """One event to pass on: its type and frame as the client shall see it, or the error that it reports.

    `before` is another event that the client shall see first.
    """

    type: str
    frame: bytes
    error: ApiError | None = None
    before: Step | None = None


class Answer:
    """Collects one turn's events. `shown_previous` is the raw `previous_response_id` that the client must read."""

    def __init__(self, shown_previous: bytes = b"null") -> None:
        self.phase = Phase.SILENT
        self.response_id = ""
        self.terminal = ""
        self.refused: ApiError | None = None
        self.events = 0
        self.next_sequence = 0
        self._shown_previous = shown_previous
        self._response = b""
        self._members: dict[str, bytes] = {}
        self._done: dict[int, bytes] = {}

    @property
    def completed(self) -> bool:
        """Whether the answer ended as only a continuable one does."""
        return self.terminal == COMPLETED

    def take(self, frame: bytes) -> Step:
        """The next frame of the link. Raises `OutOfOrder`."""
        try:
            event = peek(frame)
            if not frame.isascii():
                frame.decode()  # RFC 6455, 5.6: other text fails the connection, and `peek` skips what it ignores
        except (Malformed, UnicodeDecodeError):
            raise OutOfOrder("not an event") from None
        if not event.type.isprintable():
            raise OutOfOrder("a type that is no name")  # it would break the lines of an event stream
        if self.phase is Phase.ENDED:
            raise OutOfOrder("an event after the end")
        if event.stream_id is not None:
            raise OutOfOrder("a lane that was not asked for")
        self.events += 1
        if event.sequence_number is not None and 0 <= event.sequence_number < _MAX_NUMBER:
            self.next_sequence = event.sequence_number + 1
        if self.phase is Phase.SPEAKING and event.type in PIECES and not event.response:
            return Step(event.type, frame)  # most events by far, and they change nothing that is kept
        if event.type == "error":
            return self._failed(frame)
        try:
            return self._passed(frame, event)
        except Malformed:
            raise OutOfOrder("an event that cannot be read") from None

    def _passed(self, frame: bytes, event: Event) -> Step:
        if event.type in {RESUMED, DONE}:
            raise OutOfOrder("an event of a turn that was not resumed")
        frame = self._response_event(frame, event)
        self._advance(event)
        return Step(event.type, frame)

    def _failed(self, frame: bytes) -> Step:
        try:
            error = from_frame(msgspec.json.decode(frame, type=dict))
        except (msgspec.DecodeError, RecursionError):
            raise OutOfOrder("an error that cannot be read") from None
        self.refused = error if self.phase is Phase.SILENT else None
        self.phase, self.terminal = Phase.ENDED, "error"
        return Step("error", frame, error)

    def _response_event(self, frame: bytes, event: Event) -> bytes:
        if self.phase is not Phase.SILENT and event.type == "response.created":
            raise OutOfOrder("a second beginning")
        if bytes(event.response) in {b"", NULL}:
            if event.type in TERMINAL:
                raise OutOfOrder("an end without a response")
            return frame
        shown = restore_previous_id(frame, self._shown_previous)
        self._identify(shown.members)
        if event.type in TERMINAL or event.type in HANDSHAKE:
            self._response, self._members = shown.response, shown.members
        return shown.frame

    def _identify(self, response: Mapping[str, bytes]) -> None:
        named = _name(response.get("id", b'""'))
        if self.response_id and named and named != self.response_id:
            raise OutOfOrder("the id of another response")
        self.response_id = self.response_id or named

    def _advance(self, event: Event) -> None:
        if event.type in TERMINAL:
            self.phase, self.terminal = Phase.ENDED, event.type
        elif event.type in HANDSHAKE:
            self.phase = max(self.phase, Phase.STARTED)
        elif event.type.startswith("response."):
            self.phase = Phase.SPEAKING
        if event.type == ITEM_DONE and event.item:
            after = max(self._done, default=-1) + 1
            self._done[after if event.output_index is None else event.output_index] = bytes(event.item)

    def response(self) -> bytes:
        """The last response object seen, its output put together from its items where the upstream left it out."""
        if len(self._done) > len(self._output()):
            return splice((self._members | {"output": self._joined()}).items())
        return self._response

    def failed_event(self, message: str) -> bytes | None:
        """A `response.failed` for an answer that broke off, made of the last response object; `None` without one."""
        if not self._response:
            return None
        failed = {
            "status": b'"failed"',
            "error": msgspec.json.encode({"code": "server_error", "message": message}),
            "output": self._joined(),
        }
        event = {
            "type": b'"response.failed"',
            "sequence_number": msgspec.json.encode(self.next_sequence),
            "response": splice((self._members | failed).items()),
        }
        return splice(event.items())

    def usage(self) -> tuple[int | None, int | None, int | None]:
        """Input, output and cached input tokens of the terminal response, as far as it says."""
        raw = self._members.get("usage", b"")
        if not raw.startswith(b"{"):
            return None, None, None
        try:
            usage = msgspec.json.decode(raw, type=dict)
        except (msgspec.DecodeError, RecursionError):
            return None, None, None
        details = usage.get("input_tokens_details")
        cached = details.get("cached_tokens") if isinstance(details, dict) else None
        return _count(usage.get("input_tokens")), _count(usage.get("output_tokens")), _count(cached)

    def forms(self, *, streamed: bool) -> Sequence[Sequence[bytes]]:
        """The answered items in order, each in the forms in which the upstream sent it.

        A client that streamed has the item from its own event, any other from the terminal response: that form first.
        Where the two orders tell of different items, no item has a second form.
        """
        output, items = self._output(), self._items()
        if len(items) != len(output):
            return [(raw,) for raw in (items if len(items) > len(output) else output)]
        first, second = (items, output) if streamed else (output, items)
        if not all(map(_same_item, items, output)):
            return [(raw,) for raw in first]
        return [tuple(dict.fromkeys(pair)) for pair in zip(first, second, strict=True)]

    def _items(self) -> list[bytes]:
        return [raw for _, raw in sorted(self._done.items())]

    def _joined(self) -> bytes:
        return b"[%b]" % b",".join(self._items())

    def _output(self) -> list[bytes]:
        raw = self._members.get("output", b"")
        return elements(raw) if raw.startswith(b"[") else []


def _name(raw: bytes) -> str:
    try:
        return msgspec.json.decode(raw, type=str)
    except msgspec.DecodeError:
        raise Malformed("a name that is no text") from None


def _count(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < _MAX_NUMBER:
        return None
    return value


def _same_item(one: bytes, other: bytes) -> bool:
    try:
        return one == other or _NAMED.decode(one) == _NAMED.decode(other)
    except (msgspec.DecodeError, RecursionError):
        return False
