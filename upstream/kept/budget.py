"""Budgets for cached state: who holds how much, and who has to let go when it is too much.

A holder is charged to several scopes at once, such as its lane, its connection, its key and the process. When a scope
holds more than its level allows, its largest holder lets go, of equally large ones the one that changed least lately.
One that cannot let go is pinned, for which there has to be room beside the others that are.
Sizes are upper bounds: what two holders share is charged to both.
"""

from __future__ import annotations

import heapq
import sys
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping

    from upstream.stages.head import Head
    from upstream.stages.items import Item
    from upstream.stages.pipeline import Context
    from upstream.stages.resolve import Offer

LANE, CONNECTION, KEY, PROCESS = "lane", "connection", "key", "process"
_PER_STATE: Final = 4096
_PER_ITEM: Final = 1024
_PER_TOOL_BYTE: Final = 8
_SLACK: Final = 64


class Holder(Protocol):
    """Something that keeps state; it is known by its identity."""

    def evict(self) -> None:
        """Let go of the state."""


class Scope(NamedTuple):
    """Where a holder is charged: a level, and which one of that level."""

    level: str
    of: Hashable = None


WHOLE: Final = Scope(PROCESS)


def weight(context: Context) -> int:
    """Bytes that a conversation takes at most: its items, what is kept of each, its tools as read, and its head."""
    tools, head = len(context.resolved.offer.raw), head_weight(context.head) if context.head is not None else 0
    items = context.size + context.rendered.size + _PER_ITEM * len(context.items)
    return items + _PER_TOOL_BYTE * tools + head + _PER_STATE


def item_weight(item: Item) -> int:
    """Bytes that an item takes at most, with what was made of it."""
    made = item.facts.made
    return _PER_ITEM + len(item.raw) + len(item.tokens) + (len(made.segment.raw) if made is not None else 0)


def head_weight(head: Head) -> int:
    """Bytes that a head takes beside its tools: its tokens, and the instructions that they were made of."""
    return len(head.raw) + sys.getsizeof(head.told.instructions) + _PER_ITEM


def offer_weight(offer: Offer) -> int:
    """Bytes that tools take at most, as they came and as read."""
    return _PER_TOOL_BYTE * len(offer.raw) + _PER_STATE


@dataclass(slots=True)
class _Account:
    """One scope. The heap may hold entries that are out of date: of turns that have no holder any more.

    So it names no holders, which would else stay alive, with all that they keep, until they come to the top.
    """

    limit: int
    total: int = 0
    pinned: int = 0
    """Part of the total."""
    sizes: dict[Holder, tuple[int, int]] = field(default_factory=dict)
    holders: dict[int, Holder] = field(default_factory=dict)
    """By the turn of their last change."""
    heap: list[tuple[int, int]] = field(default_factory=list)

    def put(self, holder: Holder, size: int, turn: int) -> None:
        before, changed = self.sizes.pop(holder, (0, 0))
        self.total += size - before
        if before:
            del self.holders[changed]
        if size:
            self.sizes[holder] = (size, turn)
            self.holders[turn] = holder
            heapq.heappush(self.heap, (-size, turn))
        if len(self.heap) > 2 * len(self.sizes) + _SLACK:
            self.heap = [(-known, at) for known, at in self.sizes.values()]
            heapq.heapify(self.heap)

    def pin(self, size: int) -> None:
        """Charge so much to no holder; a negative amount takes it back."""
        self.total += size
        self.pinned += size

    def largest(self) -> Holder:
        while self.heap[0][1] not in self.holders:
            heapq.heappop(self.heap)
        return self.holders[self.heap[0][1]]


class _Charge(NamedTuple):
    size: int = 0
    scopes: tuple[Scope, ...] = ()
    is_pinned: bool = False


class Budget:
    """All accounts. `limits` are bytes by level; a level without one is not limited."""

    def __init__(self, limits: Mapping[str, int], told: Callable[[str], None] | None = None) -> None:
        self._limits = dict(limits)
        self._told = told
        self._accounts: dict[Scope, _Account] = {}
        self._holders: dict[Holder, _Charge] = {}
        self._over: dict[Scope, None] = {}
        self._turns = count()

    def used(self, scope: Scope = WHOLE) -> int:
        """Bytes that are charged to a scope."""
        account = self._accounts.get(scope)
        return account.total if account is not None else 0

    def most(self, level: str) -> int:
        """Bytes of the scope of this level that has the most."""
        return max((account.total for scope, account in self._accounts.items() if scope.level == level), default=0)

    def held(self, holder: Holder) -> int:
        """Bytes that a holder is charged."""
        return self._holders.get(holder, _Charge()).size

    def hold(self, holder: Holder, size: int, scopes: Iterable[Scope]) -> None:
        """`holder` has `size` bytes now, 0 for none, instead of what it had; then as many let go as have to."""
        self.charge(holder, size, scopes)
        self.relieve()

    def charge(self, holder: Holder, size: int, scopes: Iterable[Scope]) -> None:
        """As `hold`, without making anybody let go."""
        self.release(holder)
        if size:
            self._charge(holder, _Charge(size, self._limited(scopes)))

    def pin(self, holder: Holder, size: int, scopes: Iterable[Scope]) -> bool:
        """As `hold`, of one that cannot let go until it is held or released. False when there is no room for it."""
        self.release(holder)
        limited = self._limited(scopes)
        if any(size + self._pinned(scope) > self._limits[scope.level] for scope in limited):
            return False
        self._charge(holder, _Charge(size, limited, is_pinned=True))
        self.relieve()
        return True

    def release(self, holder: Holder) -> None:
        """`holder` has nothing any more."""
        charge = self._holders.pop(holder, _Charge())
        for scope in charge.scopes:
            account = self._accounts[scope]
            if charge.is_pinned:
                account.pin(-charge.size)
            else:
                account.put(holder, 0, 0)
            if account.total <= account.limit:
                self._over.pop(scope, None)
            if not account.total:
                del self._accounts[scope]

    def relieve(self) -> None:
        """Let the largest go, until every scope is within its limit."""
        while self._over:
            scope = next(iter(self._over))
            holder = self._accounts[scope].largest()
            self.release(holder)
            holder.evict()  # may charge others with what only this one answered for
            if self._told is not None:
                self._told(scope.level)

    def _charge(self, holder: Holder, charge: _Charge) -> None:
        turn = next(self._turns)
        self._holders[holder] = charge
        for scope in charge.scopes:
            account = self._accounts.get(scope)
            if account is None:
                account = self._accounts[scope] = _Account(self._limits[scope.level])
            if charge.is_pinned:
                account.pin(charge.size)
            else:
                account.put(holder, charge.size, turn)
            if account.total > account.limit:
                self._over[scope] = None

    def _limited(self, scopes: Iterable[Scope]) -> tuple[Scope, ...]:
        return tuple(scope for scope in scopes if scope.level in self._limits)

    def _pinned(self, scope: Scope) -> int:
        account = self._accounts.get(scope)
        return account.pinned if account is not None else 0
