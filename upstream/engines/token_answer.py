"""The answer of an engine that writes tokens: what it tells of itself, and what the model's reader makes of them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from upstream.engine import Part, Stop, Usage
from upstream.engines.chains import unpacked
from upstream.engines.failures import broken_off

if TYPE_CHECKING:
    from collections.abc import Iterator

    from upstream.engines.reader import Reader


@dataclass(frozen=True, slots=True)
class Piece:
    """What one event of an engine's stream tells."""

    tokens: bytes = field(default=b"", repr=False)
    finish: Literal["", "stop", "length"] = ""
    """How the answer ended; empty while it goes on."""
    usage: Usage | None = None


class TokenAnswer:
    """One answer. `tokens` are those that the model wrote, as it wrote them."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._finish = ""
        self._usage: Usage | None = None
        self.tokens = bytearray()

    def feed(self, piece: Piece) -> Iterator[Part]:
        """Parts that this piece completes."""
        self._finish = piece.finish or self._finish
        self._usage = piece.usage or self._usage
        self.tokens += piece.tokens
        yield from self._reader.feed(unpacked(piece.tokens))

    def end(self) -> Iterator[Part]:
        """Parts at the end of the stream. Raises `ApiError` when it was cut short."""
        if not self._finish:
            raise broken_off()
        cut = self._finish == "length"
        yield from self._reader.end(cut=cut)
        yield Stop("max_output_tokens" if cut else None, self._used())

    def _used(self) -> Usage | None:
        told = self._usage
        return told and replace(told, reasoning_tokens=min(self._reader.reasoning_tokens, told.output_tokens))
