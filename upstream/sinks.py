"""Where a server writes what its turns leave: each sink with its writer, opened together and closed together."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from upstream.kept.library import Library
from upstream.kept.vault import Vault
from upstream.settling.backlog import Backlog
from upstream.settling.ledger import LedgerFile
from upstream.settling.writer import Writer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from telemetry.server_metrics import ServerMetrics
    from upstream.kept.store import Stored
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
        self.library: Library | None = None
        if settings.store != "memory":
            if not settings.secret:
                raise ValueError("--secret is needed with --store: what is stored is sealed and named with it")
            vault = Vault(settings.secret)
            self.library = Library(settings.store, vault=vault, ttl=settings.store_ttl, metrics=metrics)

    def keep(self, stored: Stored) -> None:
        """A response is stored in memory: where there is more than that, write it there."""
        if self.library is not None:
            self.library.keep(stored)

    def waiting(self) -> dict[str, float]:
        """How much waits to be written, by sink."""
        writers = {"ledger": self.ledger, "store": self.library.writer if self.library is not None else None}
        return {name: len(writer) for name, writer in writers.items() if writer is not None}

    async def close(self, patience: float) -> int:
        """Write what waits, for at most so many seconds. How much of it could not be written."""
        ledger = self.ledger.close(patience) if self.ledger is not None else _nothing()
        library = self.library.close(patience) if self.library is not None else _nothing()
        left = sum(await asyncio.gather(ledger, library))
        if self._file is not None:
            self._file.close()
        return left

    async def _append(self, lines: Sequence[bytes]) -> None:
        if self._file is not None:
            await asyncio.to_thread(self._file.append, lines)


async def _nothing() -> int:
    return 0


def _ledger_file(path: str) -> LedgerFile | None:
    if not path:
        return None
    try:
        return LedgerFile(path)
    except OSError as error:
        raise ValueError(f"--ledger: {path}: {error.strerror}") from None
    except ValueError as error:
        raise ValueError(f"--ledger: {path}: {error}") from None
