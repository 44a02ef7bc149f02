"""Heads: known conversation states, and the longest one that a turn continues.

Theory. A turn's `input` continues a head when it is, in this order: what the client had sent before (the base), the
echo of the head's answer, and at least one new item. The three parts are recognised differently:

- The base by its bytes. Clients append; the raw bytes of the array they sent last, without the closing bracket, are a
  prefix of what they send next in nearly every step of recorded traffic. A head knows the length and keyed digest of
  that prefix, so the known part of a body is hashed once and never parsed. What follows the prefix must start a new
  element or end the array.
- The echo by the table of `state.items`, item by item in the answer's order: clients drop what servers add. An
  `item_reference` stands for the item it names.
- A base whose bytes are new (another serialisation, another replica, a restart) by its chain: the digest of all
  canonical items up to a place. Only then is everything parsed; also where a known, short base led to no head.

So heads form a tree by content alone: a branch or a side request finds its own, a rewind finds the older one. All of
it happens inside one tenant. Digests only: no content is kept.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from state.envelope import Envelope

_HEAD_BYTES = 1350
_ANSWER_BYTES = 260
_REFERENCE_BYTES = 220
_REFERENCE_SHARE = 4  # references take at most one part in this many of the budget
MAX_ALIKE = 128  # heads of equal inputs: a turn that continues there looks at each, and monitors repeat themselves


@dataclass(frozen=True, slots=True)
class Prefix:
    """Raw bytes that a client sent inside the brackets of `input`: how many, and their keyed digest."""

    length: int
    digest: bytes


@dataclass(frozen=True, slots=True)
class AnswerItem:
    """An item: digests by which its echo is accepted, the first its place in the chain; `reference` is of its id."""

    digests: tuple[bytes, ...]
    reference: bytes | None = None
    reasoning: bool = False


@dataclass(eq=False, slots=True)
class Head:
    """One known conversation state: which items it covers, its envelope, the last response id, the link that holds it.

    `base` is the chain over the `base_count` items of the input, `chain` over those and the answer; `other_chain` is
    the latter with the second form of items that the upstream sent in two forms. `link` names the link whose latest
    response this is, `None` when it was made elsewhere. A `stored` head continues on any link. `turns` counts the
    turns on end that led here by deltas, itself included; `answered` says whether the base already held an answer;
    `used` is the order of last use. `base_context` and `context` are the chains over what the client sent and over what
    the upstream holds, veiled (`state.context`); `None` where not known.
    """

    tenant: bytes
    response_id: str
    stored: bool
    envelope: Envelope
    base_count: int
    base: bytes
    chain: bytes
    answer: tuple[AnswerItem, ...]
    other_chain: bytes | None = None
    prefix: Prefix | None = None
    link: int | None = None
    turns: int = 1
    answered: bool = False
    base_context: bytes | None = None
    context: bytes | None = None
    leases: int = field(default=0, compare=False)
    used: int = field(default=0, compare=False)

    @property
    def count(self) -> int:
        """Items covered: the input and the answer."""
        return self.base_count + len(self.answer)

    @property
    def chains(self) -> tuple[bytes, ...]:
        """The chains under which the next turn's input may name it: one, or two when items came in two forms."""
        return tuple(dict.fromkeys((self.chain, self.other_chain or self.chain)))

    @property
    def weight(self) -> int:
        """Approximate bytes of memory."""
        return _HEAD_BYTES + _ANSWER_BYTES * len(self.answer)

    def __repr__(self) -> str:
        place = "stored" if self.link is None else f"link {self.link}"
        return f"<Head {self.response_id} {self.count} items, {place}, {self.leases} leases>"


@dataclass(slots=True)
class _Tenant:
    lengths: list[int] = field(default_factory=list)  # the keys of `by_length`, ascending: each turn goes through them
    by_length: dict[int, dict[bytes, list[Head]]] = field(default_factory=dict)
    by_chain: dict[bytes, list[Head]] = field(default_factory=dict)


class HeadIndex:
    """All heads in memory, found by prefix or chain inside one tenant, bounded in bytes.

    The least recently used head goes first, of all and of those in one place; a leased one never goes. The ids of
    answered items outlive their heads, so that an `item_reference` still means something after an error dropped one.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._clock = 0
        self._tenants: dict[bytes, _Tenant] = {}
        self._recent: OrderedDict[Head, None] = OrderedDict()
        self._references: OrderedDict[tuple[bytes, bytes], bytes] = OrderedDict()

    def __len__(self) -> int:
        return len(self._recent)

    def __iter__(self) -> Iterator[Head]:
        """Heads, the least recently used first."""
        return iter(list(self._recent))

    @property
    def weight(self) -> int:
        """Approximate bytes of memory in use."""
        return self._bytes

    def add(self, head: Head) -> None:
        """Make a head known; the most recently used of all. One that is known already is only touched."""
        if head in self._recent:
            self.touch(head)
            return
        tenant = self._tenants.setdefault(head.tenant, _Tenant())
        places = [tenant.by_chain.setdefault(chain, []) for chain in head.chains]
        if head.prefix is not None:
            if head.prefix.length not in tenant.by_length:
                insort(tenant.lengths, head.prefix.length)
            places.append(tenant.by_length.setdefault(head.prefix.length, {}).setdefault(head.prefix.digest, []))
        for place in places:
            place.append(head)
        self._recent[head] = None
        self._bytes += head.weight
        self.touch(head)
        for place in places:
            self._thin(place)
        for item in head.answer:
            if item.reference is not None:
                self.refer(head.tenant, item.reference, item.digests[0])
        self._evict()

    def drop(self, head: Head) -> None:
        """Forget a head; dropping one that is not known (any more) does nothing."""
        if head not in self._recent:
            return
        del self._recent[head]
        self._bytes -= head.weight
        tenant = self._tenants[head.tenant]
        if head.prefix is not None:
            by_digest = tenant.by_length[head.prefix.length]
            _remove(by_digest, head.prefix.digest, head)
            if not by_digest:
                del tenant.by_length[head.prefix.length]
                del tenant.lengths[bisect_left(tenant.lengths, head.prefix.length)]
        for chain in head.chains:
            _remove(tenant.by_chain, chain, head)
        if not tenant.by_chain:
            del self._tenants[head.tenant]

    def touch(self, head: Head) -> None:
        """Mark a head as just used."""
        if head in self._recent:
            self._recent.move_to_end(head)
            self._clock += 1
            head.used = self._clock

    def lease(self, head: Head) -> None:
        """Keep a head from eviction until `release`."""
        head.leases += 1
        self.touch(head)

    def release(self, head: Head) -> None:
        """Give a lease back."""
        if head.leases <= 0:
            raise ValueError(f"{head!r} is not leased")
        head.leases -= 1
        self._evict()

    def lengths(self, tenant: bytes) -> Sequence[int]:
        """Lengths of the known prefixes of a tenant, ascending."""
        known = self._tenants.get(tenant)
        return known.lengths if known else ()

    def with_prefix(self, tenant: bytes, prefix: Prefix) -> Sequence[Head]:
        """Heads whose base is exactly these bytes, the latest first."""
        known = self._tenants.get(tenant)
        return tuple(reversed(known.by_length.get(prefix.length, {}).get(prefix.digest, ()))) if known else ()

    def with_chain(self, tenant: bytes, chain: bytes) -> Sequence[Head]:
        """Heads that cover exactly the items of this chain, the latest first."""
        known = self._tenants.get(tenant)
        return tuple(reversed(known.by_chain.get(chain, ()))) if known else ()

    def refer(self, tenant: bytes, reference: bytes, digest: bytes) -> None:
        """Remember which item an id names."""
        key = (tenant, reference)
        if key not in self._references:
            self._bytes += _REFERENCE_BYTES
        self._references[key] = digest
        self._references.move_to_end(key)
        self._evict()

    def referred(self, tenant: bytes, reference: bytes) -> bytes | None:
        """Digest of the item that an id names, `None` when the id is unknown."""
        digest = self._references.get((tenant, reference))
        if digest is not None:
            self._references.move_to_end((tenant, reference))
        return digest

    def _thin(self, place: Sequence[Head]) -> None:
        if len(place) > MAX_ALIKE and (free := [head for head in place[:-1] if head.leases == 0]):
            self.drop(min(free, key=lambda head: head.used))  # the last in its place has just come

    def _evict(self) -> None:
        while len(self._references) * _REFERENCE_BYTES * _REFERENCE_SHARE > self._max_bytes:
            self._references.popitem(last=False)
            self._bytes -= _REFERENCE_BYTES
        while self._bytes > self._max_bytes:
            head = next((head for head in self._recent if head.leases == 0), None)
            if head is None:
                return
            self.drop(head)


def _remove(table: dict[bytes, list[Head]], key: bytes, head: Head) -> None:
    table[key].remove(head)
    if not table[key]:
        del table[key]
