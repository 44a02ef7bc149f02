"""Whether an upstream continues responses, judged by what it did with the last continuations.

Theory. Some servers accept `previous_response_id` and then refuse it, always or with certain fields. A continuation
of the very response that a link gave last, refused before anything began, is such a sign; one accepted takes it back.
After `MISSES` signs in a row no continuation is tried for `DISTRUST` seconds; then one sign more is enough again.
"""

from __future__ import annotations

from dataclasses import dataclass

MISSES = 3
DISTRUST = 600.0
BLAMED = frozenset({400, 404, 422, 500, 501})
"""Statuses of a refusal that can be about the continuation itself; limits, logins and overload are not."""


@dataclass(slots=True)
class Trust:
    """What an upstream earned so far."""

    _misses: int = 0
    _none_until: float = 0.0

    def kept(self) -> None:
        """A continuation was answered to its end."""
        self._misses = 0

    def refused(self, status: int, now: float) -> None:
        """A continuation of a link's latest response was refused before anything began."""
        if status not in BLAMED:
            return
        self._misses += 1
        if self._misses >= MISSES:
            self._none_until = now + DISTRUST

    def allows(self, now: float) -> bool:
        """Whether a continuation is worth trying."""
        return now >= self._none_until
