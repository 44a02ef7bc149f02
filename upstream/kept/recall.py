"""Before admission: what a request names and memory has not is brought from the library, so that admission finds it.

Admission itself waits for nothing. What is brought is at hand while it runs: it is lent to the store, and a response is
kept there from then on, if the budgets let it.
"""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from upstream.stages.items import REFERENCE
from wire.split import Malformed, elements

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from upstream.kept.library import Library
    from upstream.kept.store import Store, Stored
    from upstream.stages.items import Item
    from upstream.stages.pipeline import Context
    from upstream.websocket.lane import Lane


class Named(NamedTuple):
    """A response to continue, and items that a request only names, or whose hidden text it does not bring."""

    parent: str | None = None
    items: tuple[str, ...] = ()


class _Head(msgspec.Struct):
    type: str | None = None
    id: str | None = None
    role: str | None = None
    encrypted_content: str | None = None


_TEXT = msgspec.json.Decoder(str)
_HEAD = msgspec.json.Decoder(_Head)


def named(members: Mapping[str, bytes]) -> Named:
    """What a request names. Never raises: what cannot be read names nothing, and admission tells of it."""
    try:
        parent = _TEXT.decode(members.get("previous_response_id", b"null"))
    except (msgspec.DecodeError, UnicodeDecodeError):
        parent = None
    raw = members.get("input", b"")
    if raw[:1] != b"[" or b'"id"' not in raw:
        return Named(parent)
    try:
        return Named(parent, tuple(name for element in elements(raw) if (name := _lacking(element)) is not None))
    except Malformed:
        return Named(parent)


def _lacking(element: bytes) -> str | None:
    try:
        head = _HEAD.decode(element)
    except (msgspec.DecodeError, RecursionError):
        return None
    refers = head.type == REFERENCE or (head.type is None and head.role is None)
    return head.id if refers or (head.type == "reasoning" and head.encrypted_content is None) else None


class Recall:
    """Without a library nothing is ever missing. Conversations are folded anew from `empty`."""

    def __init__(self, store: Store, empty: Context, library: Library | None = None) -> None:
        self._store, self._empty, self._library = store, empty, library
        self._coming: Counter[tuple[bytes, str]] = Counter()
        self._deleted: set[tuple[bytes, str]] = set()
        """Of those that are being brought, those that were deleted since."""

    def missing(self, members: Mapping[str, bytes], owner: bytes, lane: Lane | None = None) -> Named | None:
        """What of that which a request names has to be brought; None for nothing."""
        if self._library is None:
            return None
        parent, items = named(members)
        if parent is not None and ((lane is not None and lane.find(parent)) or self._store.get(parent, owner)):
            parent = None
        kept = lane.latest.context.known.items if lane is not None and lane.latest is not None else None
        absent = tuple(
            name for name in items if not (kept and kept.get(name)) and self._store.item(name, owner) is None
        )
        return Named(parent, absent) if parent is not None or absent else None

    async def brought(self, members: Mapping[str, bytes], owner: bytes) -> Brought:
        """What is missing of a request, as far as the library has it."""
        return await self.bring(self.missing(members, owner), owner)

    async def bring(self, missing: Named | None, owner: bytes) -> Brought:
        """What is missing, as far as the library has it."""
        if missing is None or self._library is None:
            return Brought(self._store, owner)
        parent, library, empty = missing.parent, self._library, self._empty
        items = await library.items(missing.items, owner, empty) if missing.items else {}
        # Last: from then on nothing is waited for, so that none is deleted before it is at hand.
        found = await self._brought(library, parent, owner) if parent is not None else None
        return Brought(self._store, owner, found, items)

    async def _brought(self, library: Library, response_id: str, owner: bytes) -> Stored | None:
        name = owner, response_id
        self._coming[name] += 1
        try:
            found = await library.find(response_id, owner, self._empty)
            return found if name not in self._deleted else None
        finally:
            self._coming[name] -= 1
            if not self._coming[name]:
                del self._coming[name]
                self._deleted.discard(name)

    async def find(self, response_id: str, owner: bytes) -> Stored | None:
        """A stored response of this owner's, from memory or, without its conversation, from the library."""
        found = self._store.get(response_id, owner)
        return found if found is not None or self._library is None else await self._library.told(response_id, owner)

    def forget(self, response_id: str, owner: bytes) -> None:
        """Delete a stored response everywhere."""
        self._store.delete(response_id, owner)
        if (owner, response_id) in self._coming:
            self._deleted.add((owner, response_id))
        if self._library is not None:
            self._library.forget(response_id, owner)


class Brought(NamedTuple):
    """What was brought for one admission."""

    store: Store
    owner: bytes
    parent: Stored | None = None
    items: Mapping[str, Item] = {}

    @contextmanager
    def at_hand(self) -> Iterator[None]:
        """Within this, admission finds it."""
        if self.parent is not None and self.store.get(self.parent.id, self.owner) is None:
            self.store.put(self.parent)
        with self.store.lent(self.owner, self.items, self.parent):
            yield
