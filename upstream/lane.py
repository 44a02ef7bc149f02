"""A lane: one sequential chain of turns on a WebSocket connection.

Frames wait in the order of arrival and are taken one at a time; the next is taken only after `settled` or `refused`.
The lane remembers its latest completed response, stored or not. A continuation of it that does not complete (refused
with a 4xx or 5xx, failed, cut short) evicts it, so that a client which repeats the same parent is told that it is gone.
A connection has one lane without a name; named lanes would be further objects of this class.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from wire.extensions import ENVELOPE_UNKNOWN

if TYPE_CHECKING:
    from upstream.pipeline import Context
    from wire.errors import ApiError


@dataclass(frozen=True, slots=True)
class Kept:
    """What the lane needs to continue a response."""

    id: str
    context: Context = field(repr=False)


class Lane:
    """The queue and the cache of one chain."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._waiting: deque[bytes] = deque()
        self.latest: Kept | None = None
        self.busy = False

    @property
    def idle(self) -> bool:
        """Whether nothing runs and nothing waits."""
        return not self.busy and not self._waiting

    def enqueue(self, frame: bytes) -> bool:
        """Put a frame in the queue; False when it is full, and the frame has to be refused."""
        if len(self._waiting) >= self._limit:
            return False
        self._waiting.append(frame)
        return True

    def take(self) -> bytes | None:
        """The next frame, which runs from now on; None while another runs or when none waits."""
        if self.busy or not self._waiting:
            return None
        self.busy = True
        return self._waiting.popleft()

    def find(self, response_id: str) -> Kept | None:
        """The response to continue, if it is the latest."""
        return self.latest if self.latest is not None and self.latest.id == response_id else None

    def settled(self, kept: Kept | None, parent: str | None = None) -> None:
        """The running turn has ended by itself. `kept` is its response, None when that cannot be continued here."""
        self.busy = False
        if kept is not None:
            self.latest = kept
        else:
            self._evict(parent)

    def refused(self, error: ApiError, parent: str | None) -> None:
        """The running turn ended with an error. `parent` is the response that it meant to continue."""
        self.busy = False
        # A digest that is not known any more says nothing of the turn, which comes again at once with all members.
        if error.code != ENVELOPE_UNKNOWN:
            self._evict(parent)

    def _evict(self, parent: str | None) -> None:
        if parent is not None and self.find(parent) is not None:
            self.latest = None
