"""Responses that may be asked for later (`store` true), in memory and bounded; the least recently used leave first.

A context shares its items with that of its parent. So an entry is charged its whole context only while nothing
continues it; a child takes the charge over, and gives it back when it leaves. A compaction begins a context that shares
nothing. Entries are also charged to the budgets of their key and of the process, where the largest leave first.
"""

from __future__ import annotations

from collections import OrderedDict
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from upstream.kept.budget import KEY, LANE, WHOLE, Budget, Scope, weight
from upstream.stages import compaction

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from upstream.stages.items import Item
    from upstream.stages.pipeline import Context


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


@dataclass(frozen=True, slots=True, eq=False)
class _State:
    """One entry, as the budgets know it."""

    store: Store
    id: str

    def evict(self) -> None:
        self.store.drop(self.id)


class Store:
    """Stored responses by id, and their items by theirs."""

    def __init__(self, limit: int, budget: Budget | None = None) -> None:
        self._limit = limit
        self.budget = budget or Budget({})
        self._entries: OrderedDict[str, Stored] = OrderedDict()
        self._states: dict[str, _State] = {}
        self._heirs: dict[str, int] = {}
        self._items: dict[tuple[bytes, str], dict[str, Item]] = {}
        """By owner and id, as each response has it: clients name items themselves, and send them again."""
        self._lent: dict[tuple[bytes, str], Item] = {}
        self._lent_response: Stored | None = None
        self.bytes = 0
        """Charged at present."""

    def __len__(self) -> int:
        return len(self._entries)

    def put(self, stored: Stored) -> None:
        """Keep `stored`; others may leave for it, and itself when it is larger than the whole store."""
        self._inherit(stored, 1)
        self._entries[stored.id] = stored
        self._states[stored.id] = _State(self, stored.id)
        self.bytes += self._charge(stored)
        self._account(stored)
        for item in (*stored.input, *stored.output):
            if item.id is not None:
                self._items.setdefault((stored.owner, item.id), {})[stored.id] = item
        while self.bytes > self._limit and self._entries:
            self.drop(next(iter(self._entries)))
        self.budget.relieve()

    def get(self, response_id: str, owner: bytes) -> Stored | None:
        """The response, if it is there or lent, and this owner's."""
        found, lent = self._entries.get(response_id), self._lent_response
        if found is not None and found.owner == owner:
            self._entries.move_to_end(response_id)
            return found
        return lent if lent is not None and (lent.id, lent.owner) == (response_id, owner) else None

    def item(self, item_id: str, owner: bytes) -> Item | None:
        """An item of any of this owner's responses: of several that have it, of the last. Or one that is lent."""
        found = next(reversed(self._items.get((owner, item_id), {}).values()), None)
        return found or self._lent.get((owner, item_id))

    @contextmanager
    def lent(self, owner: bytes, items: Mapping[str, Item], response: Stored | None = None) -> Iterator[None]:
        """Within this, these items, and the response, are found as well; nothing of them is kept."""
        self._lent = {(owner, name): item for name, item in items.items()}
        self._lent_response = response
        try:
            yield
        finally:
            self._lent, self._lent_response = {}, None

    def delete(self, response_id: str, owner: bytes) -> bool:
        """Forget the response; False when there was none of this owner's."""
        if self.get(response_id, owner) is None:
            return False
        self.drop(response_id)
        self.budget.relieve()
        return True

    def drop(self, response_id: str) -> None:
        """Forget a response that is there, whoever's it is."""
        stored = self._entries.pop(response_id)
        self.budget.release(self._states.pop(response_id))
        self.bytes -= self._charge(stored)
        self._heirs.pop(response_id, None)
        for item in (*stored.input, *stored.output):
            if item.id is not None:
                self._forget((stored.owner, item.id), response_id)
        self._inherit(stored, -1)

    def _forget(self, key: tuple[bytes, str], response_id: str) -> None:
        having = self._items.get(key, {})
        having.pop(response_id, None)
        if not having:
            self._items.pop(key, None)

    def _inherit(self, child: Stored, change: int) -> None:
        parent = self._entries.get(child.parent or "")
        if parent is None or any(item.type == compaction.TYPE for item in (*child.input, *child.output)):
            return
        self.bytes -= self._charge(parent)
        # A parent that came back after its child was never its heir's; counting too few heirs only charges more.
        self._heirs[parent.id] = max(0, self._heirs.get(parent.id, 0) + change)
        self.bytes += self._charge(parent)
        self._account(parent)

    def _account(self, stored: Stored) -> None:
        size = len(stored.response) + (0 if self._heirs.get(stored.id) else weight(stored.context))
        state = self._states[stored.id]
        self.budget.charge(state, size, (Scope(LANE, state), Scope(KEY, stored.owner), WHOLE))

    def _charge(self, stored: Stored) -> int:
        return len(stored.response) + (0 if self._heirs.get(stored.id) else stored.context.size)
