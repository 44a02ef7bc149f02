"""The lanes of one connection, and which of their waiting frames run.

    frame arrives --offer--> waits in its lane --take--> runs --lane.ended--> (the next of its lane is due)

Within a lane frames run one at a time in the order of arrival; over all lanes at most `in_flight` run at once. When a
place becomes free, of the frames that are due the one that has waited longest gets it, so none waits for ever. A lane
begins with the first frame that names it and lasts as long as the connection; there may be `names` of them besides the
default lane. `retire` turns everything that has not begun, now or later, into refusals, which take their turn in
their lanes as the frames would have. Nothing here knows tasks or sockets.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from upstream.websocket.lane import Lane
from wire.errors import ApiError, stream_limit

if TYPE_CHECKING:
    from upstream.websocket.frame import Frame

IN_FLIGHT = 16
"""Responses that one connection runs at once (protocol: lanes)."""
NAMES = 32
"""Distinct names over the life of a connection (protocol: lanes)."""


class Lanes:
    """All lanes of a connection. At most `waiting` frames and `waiting_bytes` bytes of them wait."""

    def __init__(self, *, waiting: int, waiting_bytes: int, in_flight: int = IN_FLIGHT, names: int = NAMES) -> None:
        self._limit, self._byte_limit, self._places, self._names = waiting, waiting_bytes, in_flight, names
        self._lanes: dict[str | None, Lane] = {}
        self._lanes[None] = Lane(None, self._lanes.values())
        self._arrived = self._waiting = self._bytes = 0
        self._end: ApiError | None = None

    def __len__(self) -> int:
        return len(self._lanes)

    @property
    def idle(self) -> bool:
        """Whether nothing runs and nothing waits."""
        return all(lane.idle for lane in self._lanes.values())

    def offer(self, name: str | None, frame: Frame) -> ApiError | None:
        """Put a frame into the lane of this name. The error, if it cannot be: then nothing has changed."""
        lane = self._lanes.get(name)
        if lane is None and len(self._lanes) > self._names:
            return stream_limit(self._names)
        if self._waiting >= self._limit or (self._waiting and self._bytes + frame.size > self._byte_limit):
            full = "Too many requests are waiting on this connection."
            return ApiError(429, full, type="rate_limit_error", code="too_many_requests")
        if lane is None:
            lane = self._lanes[name] = Lane(name, self._lanes.values())
        self._arrived += 1
        self._waiting += 1
        self._bytes += frame.size
        lane.enqueue(self._arrived, frame)
        return None

    def take(self) -> tuple[Lane, Frame] | None:
        """The next frame that runs from now on, and its lane; None when none may."""
        if sum(lane.busy for lane in self._lanes.values()) >= self._places:
            return None
        due = [(lane.due, lane) for lane in self._lanes.values()]
        first = min((entry for entry in due if entry[0] is not None), key=lambda entry: entry[0] or 0, default=None)
        if first is None:
            return None
        frame = first[1].take()
        self._waiting -= 1
        self._bytes -= frame.size
        return first[1], frame if self._end is None else replace(frame, refusal=self._end, parent=None)

    def retire(self, error: ApiError) -> None:
        """Begin nothing more: each frame that waits or comes is refused with `error`."""
        self._end = error
