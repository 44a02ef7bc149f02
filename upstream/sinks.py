"""Where a server writes what its turns leave: each sink with its writer, opened together and closed together."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from upstream.backlog import Backlog
from upstream.ledger import LedgerFile
from upstream.settling import Writer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from telemetry.server_metrics import ServerMetrics
    from upstream.settings import UpstreamSettings

_LEDGER_BYTES: Final = 64 * 1024 * 1024


class Sinks:
    """Those that the settings name. Raises `ValueError` for one that cannot be used."""

    def __init__(self, settings: UpstreamSettings, metrics: ServerMetrics) -> None:
        self._file = _ledger_file(settings.ledger)
        self.ledger: Writer[bytes] | None = None
        if self._file is not None:
            lines: Backlog[bytes] = Backlog(most=settings.ledger_waiting, most_bytes=_LEDGER_BYTES)
            self.ledger = Writer("ledger", self._append, lines, metrics)

    def waiting(self) -> dict[str, float]:
        """How much waits to be written, by sink."""
        return {"ledger": len(self.ledger)} if self.ledger is not None else {}

    async def close(self, patience: float) -> int:
        """Write what waits, for at most so many seconds. How much of it could not be written."""
        left = 0
        if self.ledger is not None and self._file is not None:
            left += await self.ledger.close(patience)
            self._file.close()
        return left

    async def _append(self, lines: Sequence[bytes]) -> None:
        if self._file is not None:
            await asyncio.to_thread(self._file.append, lines)


def _ledger_file(path: str) -> LedgerFile | None:
    if not path:
        return None
    try:
        return LedgerFile(path)
    except OSError as error:
        raise ValueError(f"--ledger: {path}: {error.strerror}") from None
    except ValueError as error:
        raise ValueError(f"--ledger: {path}: {error}") from None
