"""The books of a server: what is written down of a turn when it has ended, and the wait for room to do so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from upstream.settling.ledger import line

if TYPE_CHECKING:
    from collections.abc import Callable

    from telemetry.server_metrics import ServerMetrics
    from upstream.access.keys import Key
    from upstream.settling.outcome import Outcome
    from upstream.settling.writer import Writer


class Books:
    """`holder` tells whose key an owner is."""

    def __init__(
        self,
        metrics: ServerMetrics,
        holder: Callable[[bytes], Key | None],
        ledger: Writer[bytes] | None = None,
        store: Writer[Any] | None = None,
    ) -> None:
        self._metrics, self._holder, self._ledger, self._store = metrics, holder, ledger, store

    async def room(self) -> None:
        """Wait until one more turn can be written down. What it began is to be told to `ended`, once."""
        if self._store is not None:
            await self._store.room()
        if self._ledger is not None:  # last: a place that is taken has to be used
            await self._ledger.reserve()

    def engine_failed(self, kind: str) -> None:
        """The engine failed, in one of the ways of `telemetry.server_metrics`."""
        self._metrics.engine_failed(kind)

    def ended(self, outcome: Outcome) -> None:
        """A turn has ended. It is written in the background."""
        start, first = outcome.start_s, outcome.first_token_s
        self._metrics.turn(
            transport=outcome.transport,
            status=outcome.status,
            tokens=outcome.tokens(),
            seconds=outcome.seconds,
            start_s=start,
            first_token_s=first - start if first is not None and start is not None else None,
        )
        if self._ledger is not None:
            told = line(outcome, self._holder(outcome.owner))
            self._ledger.add(told, len(told), reserved=True)
