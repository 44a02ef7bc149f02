"""Which link a turn gets: one synchronous decision over all slots, without I/O.

Theory. A slot is one upstream WebSocket, from the wish to open it to its end:

    DIALING --opened--> IDLE <--release / assign--> BUSY          any --ended--> (gone)

One turn at a time runs on a slot. An idle slot is *fresh* (no conversation on it), or it holds the latest head of
one. Giving a slot to another conversation costs the one it holds its place, so the order of choice is: the slot that
the turn belongs on; a fresh one; a new one; the slot of a conversation that has only just begun (the nursery); one
whose head is stored and continues anywhere; a new one in place of the least recently used idle slot of anyone. When
all are busy the turn goes without a link; also when a new one is needed and none may be opened (`proxy.gates`): then no
slot is given up for it.

One fresh slot per tenant in use is kept warm, so that after the first no turn waits for a handshake. It is opened
ahead of need, unless there is a crowd of slots whose conversations nobody went on with: then the oldest of these is it.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from state.heads import Head

State = Enum("State", ["DIALING", "IDLE", "BUSY"])

NURSERY = 8
"""Idle slots per tenant that hold a conversation of one turn, beyond which the oldest is given away."""
CROWD = 4 * NURSERY
"""As many of these, and the next fresh slot is one of them: calls that stand alone shall not open a link each."""
SPARE_IDLE = 300.0
"""Seconds without a turn after which a tenant's fresh slot is no longer kept warm."""
RETIRED_CAUSES = frozenset({"retired", "connection_limit", "idle", "drain", "unauthorized"})
_ENDS_REMEMBERED = 4096


@dataclass(eq=False, slots=True)
class Slot:
    """One upstream WebSocket as the pool sees it. `latest` is the head whose response is the newest on it."""

    id: int
    tenant: bytes
    born: float
    retire_at: float
    last_used: float
    state: State = State.DIALING
    latest: Head | None = None

    @property
    def fresh(self) -> bool:
        """Open, free, and no conversation's place."""
        return self.state is State.IDLE and self.latest is None

    def __repr__(self) -> str:
        return f"<Slot {self.id} {self.state.name.lower()}{'' if self.latest is None else ' holds a head'}>"


@dataclass(frozen=True, slots=True)
class Use:
    """Run on this slot; it is BUSY from now on."""

    slot: Slot


@dataclass(frozen=True, slots=True)
class Dial:
    """Open this new slot, after ending `instead` where there is one."""

    slot: Slot
    instead: Slot | None = None


@dataclass(frozen=True, slots=True)
class NoSlot:
    """No slot can be had; `reason` is the turn's reason for going without one."""

    reason: str


@dataclass(slots=True)
class Pool:
    """All slots. `max_links` bounds them, `max_age` (seconds) retires them between turns."""

    max_links: int
    max_age: float
    _slots: dict[int, Slot] = field(default_factory=dict)
    _ended: OrderedDict[int, str] = field(default_factory=OrderedDict)
    _next: int = 1

    def __len__(self) -> int:
        return len(self._slots)

    def __iter__(self) -> Iterator[Slot]:
        return iter(list(self._slots.values()))

    def get(self, slot_id: int | None) -> Slot | None:
        """The slot of that id while it lives."""
        return self._slots.get(slot_id) if slot_id is not None else None

    def acquire(self, tenant: bytes, want: int | None, now: float, against_dial: str = "") -> Use | Dial | NoSlot:
        """A slot for a turn of this tenant, rather the one it wants. `against_dial`: why none may be opened."""
        mine = [slot for slot in self._slots.values() if slot.tenant == tenant and self._usable(slot, now)]
        wanted = self.get(want)
        if wanted is not None and (wanted.tenant != tenant or wanted.state is not State.IDLE):
            wanted = None  # its age counts where the turn is planned: a link that was young enough there is so here
        fresh = max((slot for slot in mine if slot.fresh), key=_last_used, default=None)
        nursery = _nursery(mine)
        if (slot := wanted or fresh) is not None:
            return self._take(slot, now)
        if len(self._slots) < self.max_links and len(nursery) < NURSERY:
            return NoSlot(against_dial) if against_dial else Dial(self._open(tenant, now))
        stored = [slot for slot in mine if slot.latest is not None and slot.latest.stored]
        if (slot := _oldest(nursery) or _oldest(stored)) is not None:
            return self._take(slot, now)
        instead = _oldest(slot for slot in self._slots.values() if slot.state is State.IDLE)
        if instead is None:
            return NoSlot("links_exhausted")
        if against_dial:
            return NoSlot(against_dial)
        self.end(instead, "retired")
        return Dial(self._open(tenant, now), instead)

    def spare(self, tenant: bytes, now: float) -> Slot | None:
        """A new slot to open ahead of need, where the tenant has no fresh one, cannot get one, and there is room."""
        mine = [slot for slot in self._slots.values() if slot.tenant == tenant]
        if any(slot.fresh or slot.state is State.DIALING for slot in mine):
            return None
        nursery = _nursery(slot for slot in mine if self._usable(slot, now))
        if len(nursery) >= CROWD:
            min(nursery, key=_last_used).latest = None
            return None
        return self._open(tenant, now) if len(self._slots) < self.max_links else None

    def opened(self, slot: Slot, now: float, *, max_age: float, share: float = 1.0) -> None:
        """The slot's WebSocket is open; it is free.

        `max_age` is what the upstream allows, in seconds. `share` of the age is used: links that were opened together
        are not to retire together.
        """
        slot.state, slot.last_used = State.IDLE, now
        slot.retire_at = slot.born + share * min(self.max_age, max_age)

    def claim(self, slot: Slot, now: float) -> None:
        """Give a just opened slot to the turn that it was opened for."""
        self._take(slot, now)

    def release(self, slot: Slot, latest: Head | None, now: float) -> None:
        """The slot's turn is over; `latest` is the head of its answer, `None` when nothing can be continued."""
        if slot.state is not State.BUSY:
            raise ValueError(f"{slot!r} is not in use")
        slot.state, slot.latest, slot.last_used = State.IDLE, latest, now

    def end(self, slot: Slot, cause: str) -> bool:
        """The slot is gone; false when it was already. Why is remembered a while, for the heads that name it."""
        if self._slots.pop(slot.id, None) is None:
            return False
        self._ended[slot.id] = cause
        if len(self._ended) > _ENDS_REMEMBERED:
            self._ended.popitem(last=False)
        return True

    def withdraw(self, tenant: bytes, now: float) -> list[Slot]:
        """Idle slots of a tenant to close now; those in use are retired after their turns."""
        mine = [slot for slot in self._slots.values() if slot.tenant == tenant and slot.state is not State.DIALING]
        for slot in mine:
            slot.retire_at = now
        return [slot for slot in mine if slot.state is State.IDLE]

    def due(self, now: float) -> list[tuple[Slot, str]]:
        """Idle slots to close now, with the cause: too old, or warm for a tenant that is no longer in use."""
        used: dict[bytes, float] = {}
        for slot in self._slots.values():
            at = now if slot.state is State.BUSY else slot.last_used
            used[slot.tenant] = max(at, used.get(slot.tenant, at))
        return [
            (slot, "retired" if slot.retire_at <= now else "idle")
            for slot in self._slots.values()
            if slot.state is State.IDLE
            and (slot.retire_at <= now or (slot.latest is None and now - used[slot.tenant] > SPARE_IDLE))
        ]

    def reason_against(self, head: Head, now: float) -> str:
        """Why a head that is not stored cannot be continued on its link now; empty when it can."""
        slot = self.get(head.link)
        if slot is None or slot.retire_at <= now:
            cause = "retired" if slot is not None else self._ended.get(head.link or 0, "")
            return "link_retired" if cause in RETIRED_CAUSES else "link_lost"
        if slot.latest is not head:
            return "superseded"
        return "head_busy" if slot.state is not State.IDLE else ""

    def counts(self) -> dict[str, int]:
        """Slots by state, in lower case."""
        found = dict.fromkeys((state.name.lower() for state in State), 0)
        for slot in self._slots.values():
            found[slot.state.name.lower()] += 1
        return found

    def _usable(self, slot: Slot, now: float) -> bool:
        return slot.state is State.IDLE and slot.retire_at > now

    def _open(self, tenant: bytes, now: float) -> Slot:
        slot = Slot(self._next, tenant, born=now, retire_at=now + self.max_age, last_used=now)
        self._slots[slot.id] = slot
        self._next += 1
        return slot

    def _take(self, slot: Slot, now: float) -> Use:
        slot.state, slot.last_used = State.BUSY, now
        return Use(slot)


def _last_used(slot: Slot) -> float:
    return slot.last_used


def _nursery(slots: Iterable[Slot]) -> list[Slot]:
    return [slot for slot in slots if slot.latest is not None and slot.latest.turns <= 1]


def _oldest(slots: Iterable[Slot]) -> Slot | None:
    return min(slots, key=_last_used, default=None)
