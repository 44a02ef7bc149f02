"""One direction of a link: when a packet that enters now comes out. Pure."""

from __future__ import annotations

from dataclasses import dataclass

_BITS = 8


@dataclass(slots=True)
class Direction:
    """A queue before a wire of `rate` bits a second (0 is without limit) and a `delay` in seconds behind it.

    `room` is how many bytes may wait; what finds no room is lost, as in a router.
    """

    delay: float
    rate: float
    room: int
    bytes: int = 0
    """Carried so far."""
    lost: int = 0
    """Packets."""
    _free: float = 0.0

    def due(self, now: float, size: int) -> float | None:
        """The moment at which the packet comes out, on the clock of `now`; None when it is lost."""
        begins = max(now, self._free)
        if self.rate:
            if (begins - now) * self.rate / _BITS + size > self.room:
                self.lost += 1
                return None
            self._free = begins + size * _BITS / self.rate
        else:
            self._free = begins
        self.bytes += size
        return self._free + self.delay
