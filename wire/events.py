"""Server events: what a relay has to know of a frame without reading all of it."""

from __future__ import annotations

import re
from typing import NamedTuple

import msgspec

from wire.extensions import DONE, RESUMED
from wire.split import Malformed, members, splice

TERMINAL = frozenset({"response.completed", "response.failed", "response.incomplete", DONE, "error"})
"""Types after which a turn says no more."""
HANDSHAKE = frozenset({"response.created", "response.queued", "response.in_progress", RESUMED})
"""Types that say a turn has begun, and nothing of its answer."""
LANE = re.compile(r"[A-Za-z0-9_.-]{1,256}")
"""A lane's name, whole (OpenAPI: `stream_id`)."""
PIECES = frozenset(
    {
        *("response.output_text.delta", "response.refusal.delta", "response.function_call_arguments.delta"),
        *("response.reasoning_text.delta", "response.reasoning_summary_text.delta"),
        "response.custom_tool_call_input.delta",
    }
)
"""Types of which an answer has one a token: they add text to an item, all of which its end says again."""
ITEM_DONE = "response.output_item.done"
COMPLETED = "response.completed"
NULL = b"null"


class Event(msgspec.Struct, gc=False):
    """The few members of a frame that a relay acts upon; all else stays unread in the frame.

    `response`, `item` and `error` are raw JSON, empty when absent.
    """

    type: str = ""
    stream_id: str | None = None
    sequence_number: int | None = None
    output_index: int | None = None
    response: msgspec.Raw = msgspec.Raw(b"")
    item: msgspec.Raw = msgspec.Raw(b"")
    error: msgspec.Raw = msgspec.Raw(b"")


class ResponseHead(msgspec.Struct, gc=False):
    """The name of a response object, and its output as raw JSON, empty when absent."""

    id: str = ""
    output: msgspec.Raw = msgspec.Raw(b"")


_EVENT = msgspec.json.Decoder(Event)
_RESPONSE = msgspec.json.Decoder(ResponseHead)


def peek(frame: bytes) -> Event:
    """The frame's event; an `error` that has no type is one. Raises `Malformed` for any other object without a `type`.

    xAI sends its errors so (anomalyco/opencode#48227).
    """
    try:
        event = _EVENT.decode(frame)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        raise Malformed("not an event") from None
    if not event.type:
        if not bytes(event.error).startswith(b"{"):
            raise Malformed("not an event")
        event.type = "error"
    return event


def response_head(event: Event) -> ResponseHead:
    """Names in the event's `response`; all empty when it has none."""
    raw = bytes(event.response)
    if not raw or raw == NULL:
        return ResponseHead()
    try:
        return _RESPONSE.decode(raw)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        raise Malformed("not a response object") from None


class Shown(NamedTuple):
    """A frame as the client shall see it, its response in there as raw JSON, and that one's members.

    The latter two are empty when the frame has no response.
    """

    frame: bytes
    response: bytes
    members: dict[str, bytes]


def restore_previous_id(frame: bytes, shown: bytes) -> Shown:
    """The frame with `response.previous_response_id` as the client sent it (`shown`, raw JSON), taken apart.

    Everything else keeps its bytes, but for white space between top-level members. Raises `Malformed`.
    """
    outer = members(frame)
    raw = outer.get("response")
    if raw is None or raw == NULL:
        return Shown(frame, b"", {})
    inner = members(raw)
    if inner.get("previous_response_id", shown) == shown:
        return Shown(frame, raw, inner)
    inner["previous_response_id"] = shown
    outer["response"] = raw = splice(inner.items())
    return Shown(splice(outer.items()), raw, inner)
