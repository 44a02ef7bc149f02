"""What waits to be written by one sink: in which order, in which portions, when again, and what is given up.

    reserve --> add --> waiting --portion--> under way --written--> gone
                           ^______________failed_______________/   (in its place, again after a pause)

Portions are cut from the front and nothing overtakes, so whatever is written is written in the order of `add`. A turn
reserves its place before it begins: places and what waits are never more than `most`, so that a full backlog makes
turns wait and never drops what they did. What is optional needs no place. It is given up, the oldest first, when the
sink is in trouble and there is no room, and then alone.
"""

from __future__ import annotations

from collections import deque
from typing import Final, Generic, NamedTuple, TypeVar

PORTION: Final = 256
"""Entries that are written at once."""
PORTION_BYTES: Final = 4 * 1024 * 1024
_FIRST_PAUSE: Final = 0.1
_LAST_PAUSE: Final = 5.0
_T = TypeVar("_T")


class PartlyWrittenError(Exception):
    """Only the first `count` of a portion are written."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.count = count


class _Entry(NamedTuple, Generic[_T]):
    what: _T
    size: int
    optional: bool


class Backlog(Generic[_T]):
    """At most `most` entries and, once one waits, `most_bytes` bytes of them."""

    def __init__(self, *, most: int, most_bytes: int) -> None:
        self._most, self._most_bytes = most, most_bytes
        self._waiting: deque[_Entry[_T]] = deque()
        self._reserved = self._bytes = self._under_way = self._failures = 0

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def in_trouble(self) -> bool:
        """Whether the last attempt failed."""
        return self._failures > 0

    @property
    def room(self) -> bool:
        """Whether one more has a place."""
        return len(self._waiting) + self._reserved < self._most and self._bytes < self._most_bytes

    def reserve(self) -> bool:
        """Take a place for what comes later; False when there is none."""
        if not self.room:
            return False
        self._reserved += 1
        return True

    def add(self, what: _T, size: int, *, reserved: bool = False, optional: bool = False) -> list[_T]:
        """Put an entry last, into its reserved place if it has one. What is given up for it."""
        if reserved:
            self._reserved -= 1
        self._waiting.append(_Entry(what, size, optional))
        self._bytes += size
        return self._relieved() if self._failures else []

    def portion(self) -> list[_T]:
        """What is written next, from now on under way; nothing when nothing waits."""
        found: list[_T] = []
        total = 0
        for entry in self._waiting:
            total += entry.size
            if found and (total > PORTION_BYTES or len(found) == PORTION):
                break
            found.append(entry.what)
        self._under_way = len(found)
        return found

    def written(self) -> None:
        """The portion is written."""
        self._drop(self._under_way)
        self._failures = 0

    def failed(self, written: int = 0) -> float:
        """Only the first `written` of the portion are. Seconds to wait before the rest is tried again."""
        self._drop(written)
        self._failures += 1
        return min(_LAST_PAUSE, _FIRST_PAUSE * 2.0 ** min(self._failures - 1, 16))

    def _drop(self, count: int) -> None:
        for _ in range(count):
            self._bytes -= self._waiting.popleft().size
        self._under_way = 0

    def _over(self) -> bool:
        return len(self._waiting) > self._most or self._bytes > self._most_bytes

    def _relieved(self) -> list[_T]:
        given_up: list[_T] = []
        at = self._under_way
        while self._over() and at < len(self._waiting):
            entry = self._waiting[at]
            if entry.optional:
                del self._waiting[at]
                self._bytes -= entry.size
                given_up.append(entry.what)
            else:
                at += 1
        return given_up
