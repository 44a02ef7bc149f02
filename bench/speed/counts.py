"""How many bytes a link has carried, told by its process to whoever measures: two numbers in a shared file."""

from __future__ import annotations

import mmap
import struct
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

_NUMBERS = struct.Struct("<QQ")


class Carried(NamedTuple):
    """Bytes so far, from the client's side up and back down."""

    up: int
    down: int

    def since(self, before: Carried) -> Carried:
        """What was carried in between."""
        return Carried(self.up - before.up, self.down - before.down)


class Counts:
    """The shared file; made anew by the one who creates it."""

    def __init__(self, path: Path, *, create: bool = False) -> None:
        if create:
            path.write_bytes(bytes(_NUMBERS.size))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), _NUMBERS.size)

    def tell(self, up: int, down: int) -> None:
        """Write both."""
        _NUMBERS.pack_into(self._map, 0, up, down)

    def read(self) -> Carried:
        """Read both."""
        return Carried(*_NUMBERS.unpack_from(self._map, 0))

    def close(self) -> None:
        """Let go of the file."""
        self._map.close()
