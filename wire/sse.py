"""Server-sent events: one event is `event: TYPE`, `data: JSON`, an empty line (the framing of the Responses API)."""

from __future__ import annotations

from typing import NamedTuple

CONTENT_TYPE = "text/event-stream; charset=utf-8"
COMMENT = b": keep-alive\n"
"""One comment line. It has no empty line after it, since strict parsers take that for an empty event."""
DONE = b"data: [DONE]\n\n"
"""What Open Responses ends a stream with; OpenAI's API does not."""
_NEWLINES = b"\r\n"


class SseEvent(NamedTuple):
    """One event as received; `event` is empty when the stream named none."""

    event: str
    data: bytes


def encode(event_type: str, data: bytes) -> bytes:
    """The event on the wire. `data` is JSON, in which a raw newline can only be white space between tokens."""
    # As numbers: looking for bytes in bytes takes ten times as long.
    if _NEWLINES[0] in data or _NEWLINES[1] in data:
        data = data.translate(None, _NEWLINES)
    return b"event: %b\ndata: %b\n\n" % (event_type.encode(), data)


class Parser:
    """Incremental reader of an event stream (HTML Living Standard, 9.2.6); chunk borders do not matter."""

    def __init__(self) -> None:
        self._line_parts: list[bytes] = []
        self._after_return = False
        self._event = ""
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> list[SseEvent]:
        """Events that `chunk` completes."""
        if not chunk:
            return []
        if self._after_return:
            chunk = chunk.removeprefix(b"\n")  # the second half of a CRLF whose first half has ended the line already
        self._after_return = chunk.endswith(b"\r")
        if b"\r" in chunk:
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        first, *more = chunk.split(b"\n")
        self._line_parts.append(first)
        if not more:
            return []
        *lines, last = b"".join(self._line_parts), *more
        self._line_parts = [last]
        return [event for line in lines if (event := self._line(line)) is not None]

    def _line(self, line: bytes) -> SseEvent | None:
        if not line:
            event, data, self._event, self._data = self._event, self._data, "", []
            return SseEvent(event, b"\n".join(data)) if data else None
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"event":
            self._event = value.decode(errors="replace")
        elif name == b"data":
            self._data.append(value)
        return None
