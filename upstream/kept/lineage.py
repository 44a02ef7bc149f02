"""Where a stored response lies in the shared store: in which logs the turns of its conversation stand.

A log is a list of turns. A response lies at the end of a path: so many turns of one log, then so many of the next. Only
the process that began a log adds to it, and only at its end; whoever continues from anywhere else begins a new log
behind the same path. So a turn is written once, however many responses come after it, and no two processes ever write
in the same place. Where it is not known how the parent lies, the new log begins with the whole conversation.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

MOST: Final = 16384
"""Responses whose place is remembered."""
LONGEST: Final = 256
"""Logs of a path; a longer one begins anew."""

Path = tuple[tuple[bytes, int], ...]
"""Logs, and how many turns of each."""


class Place(NamedTuple):
    """Where a response is written. `forks` is the place that a new log goes on from."""

    path: Path
    whole: bool = False
    """Whether its turn has to bring the whole conversation."""
    forks: tuple[bytes, int] | None = None


class Lineage:
    """What one process knows of logs. `new` makes the name of one."""

    def __init__(self, new: Callable[[], bytes]) -> None:
        self._new = new
        self._paths: OrderedDict[str, Path] = OrderedDict()
        self._ends: OrderedDict[bytes, int] = OrderedDict()

    def add(self, response_id: str, parent: str | None) -> Place:
        """The place of a new response after `parent` (None: the first of a conversation)."""
        before = self._paths.get(parent) if parent is not None else ()
        place = self._begun(before) if not before or len(before) > LONGEST else self._continued(before)
        self._ends[place.path[-1][0]] = place.path[-1][1]
        self._ends.move_to_end(place.path[-1][0])
        self.learn(response_id, place.path)
        if len(self._ends) > MOST:
            self._ends.popitem(last=False)
        return place

    def learn(self, response_id: str, path: Path) -> None:
        """A response lies there: it was written now, or found."""
        self._paths[response_id] = path
        self._paths.move_to_end(response_id)
        if len(self._paths) > MOST:
            self._paths.popitem(last=False)

    def path(self, response_id: str) -> Path | None:
        """Where a response lies, as far as it is known."""
        return self._paths.get(response_id)

    def forget(self) -> None:
        """Logs may have holes: go on from nothing that was written before."""
        self._paths.clear()
        self._ends.clear()

    def _begun(self, before: Path | None) -> Place:
        return Place(((self._new(), 1),), whole=before is None or bool(before))

    def _continued(self, before: Path) -> Place:
        *front, (log, count) = before
        if self._ends.get(log) == count:
            return Place((*front, (log, count + 1)))
        return Place((*before, (self._new(), 1)), forks=(log, count))
