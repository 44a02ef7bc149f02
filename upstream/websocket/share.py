"""What one connection keeps between turns, charged to its budgets: the state of each lane, and its envelope members."""

from __future__ import annotations

from typing import TYPE_CHECKING

from upstream.kept.budget import CONNECTION, KEY, LANE, WHOLE, Budget, Scope, weight

if TYPE_CHECKING:
    from upstream.websocket.envelope_cache import EnvelopeCache
    from upstream.websocket.lane import Lane


class Share:
    """The part of the budgets that one connection takes up."""

    def __init__(self, budget: Budget, owner: bytes, envelopes: EnvelopeCache | None) -> None:
        self._budget, self._envelopes = budget, envelopes
        self._scopes = (Scope(CONNECTION, self), Scope(KEY, owner), WHOLE)
        self._lanes: dict[Lane, str] = {}

    def lane(self, lane: Lane) -> None:
        """The lane's state may have changed. It, or another one, is gone afterwards if it is too much."""
        kept = lane.latest
        if kept is None:
            if self._lanes.pop(lane, None) is not None:
                self._budget.release(lane)
        elif self._lanes.get(lane) != kept.id:
            self._lanes[lane] = kept.id
            self._budget.hold(lane, weight(kept.context) + kept.asked.size, (Scope(LANE, lane), *self._scopes))

    def envelopes(self) -> None:
        """A frame may have brought new members."""
        if self._envelopes is not None and self._envelopes.bytes != self._budget.held(self._envelopes):
            self._budget.hold(self._envelopes, self._envelopes.bytes, self._scopes)

    def close(self) -> None:
        """The connection has ended: it keeps nothing."""
        for lane in self._lanes:
            self._budget.release(lane)
        self._lanes.clear()
        if self._envelopes is not None:
            self._budget.release(self._envelopes)
