"""The last turns, kept for the live page and `/api/turns`."""

from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import islice

from telemetry.turn import TurnRecord


def _now() -> datetime:
    return datetime.now(UTC)


class Recent:
    """A ring of the last `capacity` turns as plain dicts, without content.

    Each carries its `number` (1 is the first of this process) and `at`, the wall time at which it ended (ISO 8601).
    """

    def __init__(self, capacity: int = 256, now: Callable[[], datetime] = _now) -> None:
        self._ring: deque[dict[str, object]] = deque(maxlen=capacity)
        self._now = now
        self._seen = 0

    def add(self, record: TurnRecord) -> None:
        """Copy the record in; later changes of it do not show."""
        self._seen += 1
        at = self._now().isoformat(timespec="milliseconds")
        self._ring.append({"number": self._seen, "at": at, **record.as_dict()})

    def newest(self, limit: int | None = None) -> list[dict[str, object]]:
        """The kept turns, newest first, at most `limit` of them."""
        return list(islice(reversed(self._ring), limit))
