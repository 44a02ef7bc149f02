"""Counted work: how many calls the project's own code makes. The same on a fast machine and on a busy one."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from types import FrameType, TracebackType

_CALLS = frozenset({"call", "c_call"})
_ROOT = str(Path(__file__).parents[2])
OWN = tuple(f"{_ROOT}/{folder}/" for folder in ("proxy", "upstream", "state", "wire", "telemetry"))
"""Where the code is whose calls count: how often a library is called for a chunk of bytes is up to the network."""


class Calls:
    """Counts calls that this thread makes inside the `with` block: of functions in these folders, or from there.

    Resumed coroutines count as calls. Raises `RuntimeError` where something else is profiling already.
    """

    def __init__(self, folders: tuple[str, ...] = OWN) -> None:
        self._folders = folders
        self.number = 0

    def __enter__(self) -> Self:
        """Begin."""
        if sys.getprofile() is not None:
            raise RuntimeError("this thread is profiled already")
        sys.setprofile(self._seen)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """End."""
        sys.setprofile(None)

    def _seen(self, frame: FrameType, event: str, _argument: object) -> None:
        self.number += event in _CALLS and frame.f_code.co_filename.startswith(self._folders)
