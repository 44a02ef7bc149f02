"""What a connection is told to do, one after the other. Faults rewrite lists of steps; the server carries them out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio


@dataclass(frozen=True, slots=True)
class Text:
    """One event: a text frame, or an SSE event on HTTP."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Binary:
    """A binary frame; nothing on HTTP."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing more until the test sets `gate`. `reached` is set once the server stands here."""

    gate: asyncio.Event
    reached: asyncio.Event | None = None


@dataclass(frozen=True, slots=True)
class Pause:
    """Nothing more for so many seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Close:
    """The closing handshake with `code`. On HTTP the connection is broken, since a stream has no close code."""

    code: int


@dataclass(frozen=True, slots=True)
class Reset:
    """TCP RST: what was not read yet is lost."""


@dataclass(frozen=True, slots=True)
class Hang:
    """Nothing, until the other side ends the connection."""


Step = Text | Binary | Wait | Pause | Close | Reset | Hang


def after(steps: list[Step], events: int) -> int:
    """Index behind the first `events` texts; the end when there are fewer."""
    seen = 0
    for index, step in enumerate(steps):
        if seen == events:
            return index
        seen += isinstance(step, Text)
    return len(steps)
