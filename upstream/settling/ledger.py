"""The usage ledger: a file of JSON Lines, one line per turn, only ever appended to.

A portion of lines is one write and one `fsync`. A line that a crash or a full disk cut short stays a line of its own,
which is no JSON; the next one begins after it. A file that was moved or removed is made anew before the next portion.
"""

from __future__ import annotations

import os
import stat
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from upstream.settling.backlog import PartlyWrittenError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from upstream.access.keys import Key
    from upstream.settling.outcome import Outcome

_ENCODER: Final = msgspec.json.Encoder()
_MODEL: Final = 128
_MODE: Final = 0o640


def line(outcome: Outcome, key: Key | None) -> bytes:
    """The line of a turn. `key` is whose it is, None where the server has no file of keys."""
    told = {
        "time": datetime.fromtimestamp(outcome.ended_at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "response_id": outcome.response_id,
        "key_id": key.id if key is not None else None,
        "key_name": key.name if key is not None else None,
        "model": outcome.model[:_MODEL],
        "transport": outcome.transport,
        **{f"{kind}_tokens": number for kind, number in outcome.tokens().items()},
        "status": outcome.status,
    }
    return _ENCODER.encode(told) + b"\n"


class LedgerFile:
    """The file. Raises `OSError` when it cannot be opened, `ValueError` when it is none."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._file = self._opened()
        self._torn = self._is_torn()

    def append(self, lines: Sequence[bytes]) -> None:
        """Write the lines and wait until the disk has them.

        Raises `PartlyWrittenError` when some are there and the rest is not, `OSError` when it is not known that any is.
        """
        self._follow()
        begin = b"\n" if self._torn else b""
        data = begin + b"".join(lines)
        written = 0
        try:
            while written < len(data):
                written += os.write(self._file, data[written:])
        except OSError as error:
            self._torn = self._torn if not written else data[written - 1 : written] != b"\n"
            # A line that lacks only its end is whole: the next one begins with that.
            whole = data[len(begin) : written + 1].count(b"\n") if written > len(begin) else 0
            raise PartlyWrittenError(whole) from error
        self._torn = False
        os.fsync(self._file)

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._file)

    def _follow(self) -> None:
        """Open the file anew if another, or none, has its name now."""
        try:
            there = self._path.stat()
            known = os.fstat(self._file)
            if (there.st_dev, there.st_ino) == (known.st_dev, known.st_ino):
                return
        except FileNotFoundError:
            pass
        opened = self._opened()
        os.close(self._file)
        self._file, self._torn = opened, False
        self._torn = self._is_torn()

    def _opened(self) -> int:
        opened = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, _MODE)
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            os.close(opened)
            raise ValueError("not a regular file")
        return opened

    def _is_torn(self) -> bool:
        size = os.fstat(self._file).st_size
        return size > 0 and os.pread(self._file, 1, size - 1) != b"\n"
