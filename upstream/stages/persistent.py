"""Immutable collections that grow by sharing: what the folds keep of a conversation.

Both are tuples of chunks whose sizes fall from left to right. Appending merges the chunks at the end that are not
larger than what is appended, as the digits of a binary counter carry. So n elements stand in O(log n) chunks, each
element is copied O(log n) times in all its life, and no earlier value ever changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_T = TypeVar("_T")
_K = TypeVar("_K")
_V = TypeVar("_V")


class Seq(Generic[_T]):
    """A sequence; `a.plus(b)` leaves `a` as it was."""

    __slots__ = ("_chunks", "_length")

    def __init__(self, items: Iterable[_T] = ()) -> None:
        chunk = tuple(items)
        self._chunks: tuple[tuple[_T, ...], ...] = (chunk,) if chunk else ()
        self._length = len(chunk)

    def plus(self, items: Iterable[_T]) -> Seq[_T]:
        """A sequence of these items and then `items`."""
        tail = tuple(items)
        if not tail:
            return self
        grown: Seq[_T] = Seq()
        grown._length = self._length + len(tail)
        chunks = self._chunks
        while chunks and len(chunks[-1]) <= len(tail):
            tail = chunks[-1] + tail
            chunks = chunks[:-1]
        grown._chunks = (*chunks, tail)
        return grown

    def with_changed(self, changed: Mapping[int, _T]) -> Seq[_T]:
        """A sequence with other elements in these places; chunks without any are shared."""
        made: Seq[_T] = Seq()
        made._length = self._length
        begin = 0
        chunks: list[tuple[_T, ...]] = []
        for chunk in self._chunks:
            if any(begin <= at < begin + len(chunk) for at in changed):
                chunks.append(tuple(changed.get(begin + at, member) for at, member in enumerate(chunk)))
            else:
                chunks.append(chunk)
            begin += len(chunk)
        made._chunks = tuple(chunks)
        return made

    def __getitem__(self, at: int) -> _T:
        """The element in this place, counted from 0."""
        for chunk in self._chunks:
            if 0 <= at < len(chunk):
                return chunk[at]
            at -= len(chunk)
        raise IndexError

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[_T]:
        for chunk in self._chunks:
            yield from chunk

    def __reversed__(self) -> Iterator[_T]:
        for chunk in reversed(self._chunks):
            yield from reversed(chunk)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Seq):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Seq(length={self._length}, chunks={len(self._chunks)})"


class Index(Generic[_K, _V]):
    """A mapping; of a key that was added twice the later value counts."""

    __slots__ = ("_layers",)

    def __init__(self, entries: Mapping[_K, _V] | None = None) -> None:
        self._layers: tuple[dict[_K, _V], ...] = (dict(entries),) if entries else ()

    def plus(self, entries: Mapping[_K, _V]) -> Index[_K, _V]:
        """A mapping with these entries and `entries`."""
        top = dict(entries)
        if not top:
            return self
        layers = self._layers
        while layers and len(layers[-1]) <= len(top):
            top = layers[-1] | top
            layers = layers[:-1]
        grown: Index[_K, _V] = Index()
        grown._layers = (*layers, top)
        return grown

    def get(self, key: _K) -> _V | None:
        """The value of `key`, None without one."""
        for layer in reversed(self._layers):
            if key in layer:
                return layer[key]
        return None

    def __contains__(self, key: object) -> bool:
        return any(key in layer for layer in self._layers)

    def as_dict(self) -> dict[_K, _V]:
        """A copy as one dictionary."""
        merged: dict[_K, _V] = {}
        for layer in self._layers:
            merged |= layer
        return merged

    def __eq__(self, other: object) -> bool:
        return self.as_dict() == other.as_dict() if isinstance(other, Index) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Index(layers={len(self._layers)})"
