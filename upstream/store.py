"""Responses that may be asked for later (`store` true), in memory and bounded; the least recently used leave first.

A context shares its items with that of its parent. So an entry is charged its whole context only while nothing
continues it; a child takes the charge over, and gives it back when it leaves.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from upstream.items import Item
    from upstream.pipeline import Context


@dataclass(frozen=True, slots=True)
class Stored:
    """One response. `owner` is the keyed digest of the credentials that made it: nobody else finds it."""

    id: str
    owner: bytes = field(repr=False)
    parent: str | None
    response: bytes = field(repr=False)
    input: tuple[Item, ...] = field(repr=False)
    """What the request itself brought, not what it continued."""
    output: tuple[Item, ...] = field(repr=False)
    context: Context = field(repr=False)


class Store:
    """Stored responses by id, and their items by theirs."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._entries: OrderedDict[str, Stored] = OrderedDict()
        self._heirs: dict[str, int] = {}
        self._items: dict[str, tuple[str, Item]] = {}
        self.bytes = 0
        """Charged at present."""

    def __len__(self) -> int:
        return len(self._entries)

    def put(self, stored: Stored) -> None:
        """Keep `stored`; others may leave for it, and itself when it is larger than the whole store."""
        if stored.parent in self._entries:
            self._inherit(stored.parent, 1)
        self._entries[stored.id] = stored
        self.bytes += self._charge(stored)
        for item in (*stored.input, *stored.output):
            if item.id is not None:
                self._items[item.id] = (stored.id, item)
        while self.bytes > self._limit and self._entries:
            self._drop(next(iter(self._entries)))

    def get(self, response_id: str, owner: bytes) -> Stored | None:
        """The response, if it is there and this owner's."""
        found = self._entries.get(response_id)
        if found is None or found.owner != owner:
            return None
        self._entries.move_to_end(response_id)
        return found

    def item(self, item_id: str, owner: bytes) -> Item | None:
        """An item of any of this owner's responses."""
        response_id, item = self._items.get(item_id, ("", None))
        found = self._entries.get(response_id)
        return item if found is not None and found.owner == owner else None

    def delete(self, response_id: str, owner: bytes) -> bool:
        """Forget the response; False when there was none of this owner's."""
        if self.get(response_id, owner) is None:
            return False
        self._drop(response_id)
        return True

    def _drop(self, response_id: str) -> None:
        stored = self._entries.pop(response_id)
        self.bytes -= self._charge(stored)
        self._heirs.pop(response_id, None)
        for item in (*stored.input, *stored.output):
            if item.id is not None and self._items.get(item.id, ("",))[0] == response_id:
                del self._items[item.id]
        if stored.parent in self._entries:
            self._inherit(stored.parent, -1)

    def _inherit(self, parent: str | None, change: int) -> None:
        if parent is None:
            return
        self.bytes -= self._charge(self._entries[parent])
        self._heirs[parent] = self._heirs.get(parent, 0) + change
        self.bytes += self._charge(self._entries[parent])

    def _charge(self, stored: Stored) -> int:
        return len(stored.response) + (0 if self._heirs.get(stored.id) else stored.context.size)
