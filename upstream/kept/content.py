"""What owners sent, known again by its bytes: items with what the stages made of them, offers of tools, heads.

A request that brings its whole history is folded from the beginning, but of an item that came before nothing is parsed,
screened or encoded again. An item is known by its own bytes, so a client that writes the rest of its body anew loses
nothing. Each owner has a shelf of its own: nobody can tell by the time what others have sent. A shelf is bounded, what
was not used for longest leaves, and it is charged to the owner's budget and to the process's.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from upstream.kept.budget import KEY, WHOLE, Scope, head_weight, item_weight, offer_weight
from upstream.stages.resolve import read_offer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from upstream.kept.budget import Budget
    from upstream.stages.head import Head
    from upstream.stages.items import Item
    from upstream.stages.resolve import Offer

CACHING: Final = ("none", "http", "websocket")
"""What is kept between requests: nothing; what came, by its content; that, and the lanes of WebSockets."""
LIMIT: Final = 64 * 1024 * 1024
"""Bytes of one shelf."""
_OFFERS: Final = 8
_HEADS: Final = 8


@dataclass(slots=True, eq=False)
class Shelf:
    """What one owner sent."""

    limit: int = 0
    gone: Callable[[], object] = field(default=lambda: None, repr=False)
    """Told when everything has to go."""
    heads: deque[Head] = field(default_factory=deque, repr=False)
    held: int = 0
    """Bytes of it, at most."""
    _items: OrderedDict[bytes, tuple[Item, int]] = field(default_factory=OrderedDict, repr=False)
    _offers: OrderedDict[bytes, tuple[Offer, int]] = field(default_factory=OrderedDict, repr=False)

    def item(self, raw: bytes) -> Item | None:
        """The item with these bytes."""
        found = self._items.get(raw)
        if found is None:
            return None
        self._items.move_to_end(raw)
        return found[0]

    def offer(self, raw: bytes) -> Offer:
        """The offer of a `tools` member with these bytes. Raises `ApiError` with the path of what is wrong."""
        found = self._offers.get(raw)
        return found[0] if found is not None else read_offer(raw)

    def put(self, items: Iterable[Item], offer: Offer, head: Head) -> None:
        """Keep what a request brought or used, after the stages have looked at it."""
        for item in items:
            if item.raw not in self._items:
                self._items[item.raw] = item, item_weight(item)
                self.held += item_weight(item)
        if offer.raw and offer.raw not in self._offers:
            self._offers[offer.raw] = offer, offer_weight(offer)
            self.held += offer_weight(offer)
        elif offer.raw:
            self._offers.move_to_end(offer.raw)
        others = [one for one in self.heads if one is not head]
        if len(others) == len(self.heads):
            self.held += head_weight(head)
        self.heads = deque([*others, head])
        self._bound()

    def evict(self) -> None:
        """Forget everything: a budget is exceeded."""
        self._items.clear()
        self._offers.clear()
        self.heads.clear()
        self.held = 0
        self.gone()

    def _bound(self) -> None:
        while len(self._offers) > _OFFERS:
            self.held -= self._offers.popitem(last=False)[1][1]
        while len(self.heads) > _HEADS:
            self.held -= head_weight(self.heads.popleft())
        while self.held > self.limit and self._items:
            self.held -= self._items.popitem(last=False)[1][1]
        while self.held > self.limit and self.heads:
            self.held -= head_weight(self.heads.popleft())
        while self.held > self.limit and self._offers:
            self.held -= self._offers.popitem(last=False)[1][1]


class Contents:
    """All shelves. Without a budget there are none: each request finds an empty one, which is not kept."""

    def __init__(self, budget: Budget | None, limit: int = LIMIT) -> None:
        self._budget, self._limit = budget, limit
        self._shelves: dict[bytes, Shelf] = {}

    def of(self, owner: bytes) -> Shelf:
        """The owner's shelf."""
        return self._shelves.get(owner) or Shelf(self._limit, lambda: self._shelves.pop(owner, None))

    def put(self, owner: bytes, shelf: Shelf, items: Iterable[Item], offer: Offer, head: Head) -> None:
        """Keep what a request of this owner brought on its shelf."""
        if self._budget is None:
            return
        shelf.put(items, offer, head)
        self._shelves[owner] = shelf
        self._budget.hold(shelf, shelf.held, (Scope(KEY, owner), WHOLE))
