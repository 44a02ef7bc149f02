"""Standard streams as they may be: closed by whoever started us, or read by somebody who has seen enough.

Neither is a reason for a server not to serve, nor for a verdict not to reach the shell as an exit code.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress

_STANDARD = (0, 1, 2)


def complete() -> None:
    """Open what is closed of the three, on nothing: a socket must not come to stand where others read and write."""
    for number in _STANDARD:
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free, which is this one
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - for as long as the process lives


def say(*lines: str) -> None:
    """Write lines to stdout, at once; when nobody takes them, this and all that follows is dropped."""
    try:
        for line in lines:
            print(line, flush=True)  # noqa: T201 - this is where commands speak
    except OSError:
        # What is still in the buffer would fail once more at the end of the process.
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
