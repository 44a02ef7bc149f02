"""A lane: one sequential chain of turns on a WebSocket connection.

Frames wait in the order of arrival and are taken one at a time; the next is taken only after `ended`. The lane
remembers its latest completed response, stored or not. A continuation of it that does not complete (refused with a 4xx
or 5xx, failed, cut short) evicts it, so that a client which repeats the same parent is told that it is gone. Other
lanes of the connection may continue it as well: such a fork leaves it where it is, whatever becomes of the fork.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from wire.extensions import ENVELOPE_UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterable

    from upstream.turns.asked import Kept
    from upstream.websocket.frame import Frame
    from wire.errors import ApiError


class Lane:
    """The queue and the cache of one chain. `name` is its `stream_id`, None for the default lane."""

    def __init__(self, name: str | None = None, others: Iterable[Lane] = ()) -> None:
        self.name = name
        self._others = others
        self._waiting: deque[tuple[int, Frame]] = deque()
        self.latest: Kept | None = None
        self.busy = False

    @property
    def idle(self) -> bool:
        """Whether nothing runs and nothing waits."""
        return not self.busy and not self._waiting

    @property
    def due(self) -> int | None:
        """When the frame arrived that may run now; None while another runs or when none waits."""
        return self._waiting[0][0] if self._waiting and not self.busy else None

    def enqueue(self, number: int, frame: Frame) -> None:
        """Put a frame in the queue; `number` tells the order of arrival over all lanes."""
        self._waiting.append((number, frame))

    def take(self) -> Frame:
        """The frame that is due, which runs from now on."""
        self.busy = True
        return self._waiting.popleft()[1]

    def find(self, response_id: str) -> Kept | None:
        """The response to continue, if it is the latest of this lane, or of another one of the connection."""
        for lane in (self, *self._others):
            if lane.latest is not None and lane.latest.id == response_id:
                return lane.latest
        return None

    def settled(self, kept: Kept | None, parent: str | None = None) -> None:
        """The running turn has its answer. `kept` is its response, None when that cannot be continued here."""
        if kept is not None:
            self.latest = kept
        else:
            self.failed(parent)

    def refused(self, error: ApiError, parent: str | None) -> None:
        """The running turn is answered with an error. `parent` is the response that it meant to continue."""
        # A digest that is not known any more says nothing of the turn, which comes again at once with all members.
        if error.code != ENVELOPE_UNKNOWN:
            self.failed(parent)

    def failed(self, parent: str | None) -> None:
        """A continuation of `parent` came to nothing."""
        if self.latest is not None and self.latest.id == parent:
            self.latest = None

    def evict(self) -> None:
        """Forget the latest response: a budget is exceeded."""
        self.latest = None

    def ended(self) -> None:
        """Nothing more is said of the running turn: the next frame may run."""
        self.busy = False
