"""Which slot of an engine a conversation goes to: the one that holds its beginning.

An engine keeps in each slot what it read last. A conversation that goes on finds its slot by its items, which are the
same objects when it is continued by id, and equal when it was sent anew. Conversations of different owners never meet:
a slot that changes hands is read from the start, so nobody can tell by the time what others have sent.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from upstream.templates.chatml import EMPTY, Rendered
from upstream.templates.parts import Segment, plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from upstream.stages.items import Item

_MAX_ITEMS_OF_ANSWER = 16


@dataclass(slots=True)
class Chain:
    """What is known of the conversation in one slot."""

    owner: bytes = field(default=b"", repr=False)
    items: tuple[Item, ...] = field(default=(), repr=False)
    rendered: Rendered = EMPTY
    tokens: list[bytes | None] = field(default_factory=list, repr=False)
    """Tokens of each segment as raw uint32, the head's first; None where they are not known."""
    head: Segment = field(default=(), repr=False)
    wrote: tuple[str, bytes] = field(default=("", b""), repr=False)
    """Text and tokens that the model wrote last, its opening included."""


@dataclass(slots=True)
class Slots:
    """The slots of one engine. Their `count` is 0 until it is known."""

    count: int
    chains: dict[int, Chain] = field(default_factory=dict, repr=False)
    """The least recently used first."""
    busy: set[int] = field(default_factory=set)

    def take(self, owner: bytes, items: Sequence[Item]) -> tuple[int, Chain, bool]:
        """Slot (busy until given back), the chain to go on from, and whether the slot's content may be used again.

        One slot at least has to be idle: one that the engine chose instead would hold what nobody here knows of.
        """
        own = [(_same(chain.items, items), slot) for slot, chain in self.chains.items() if chain.owner == owner]
        same, nearest = max(own, default=(0, 0))
        fitting = [
            (same, slot)
            for same, slot in own
            if same and same * 2 >= len(self.chains[slot].items) and slot not in self.busy
        ]
        used = [slot for slot in self.chains if slot not in self.busy]
        unused = [slot for slot in range(self.count) if slot not in self.busy and slot not in self.chains]
        slot = max(fitting)[1] if fitting else [*unused, *used][0]
        held = self.chains.get(slot)
        self.busy.add(slot)
        chain = self.chains[nearest] if same else Chain(owner)
        return slot, chain, held is not None and held.owner == owner

    def give_back(self, slot: int, chain: Chain | None) -> None:
        """The slot is idle and holds this conversation; None when that is not known."""
        self.busy.discard(slot)
        self.chains.pop(slot, None)
        if chain is not None:
            self.chains[slot] = chain


def continued(chain: Chain, items: tuple[Item, ...], rendered: Rendered, head: Segment) -> Chain:
    """The chain with these items: every segment that it had keeps its tokens, also those that the model wrote."""
    old = (chain.head, *chain.rendered.segments)
    new = (head, *rendered.segments)
    tokens: list[bytes | None] = [None] * len(new)
    for place, (before, now) in enumerate(zip(old, new, strict=False)):
        if place < len(chain.tokens) and before == now:
            tokens[place] = chain.tokens[place]
    _take_over(chain, len(old), new, tokens, {place + 1 for place, _ in rendered.thoughts})
    return Chain(chain.owner, items, rendered, tokens, head)


def _take_over(
    chain: Chain, begin: int, new: Sequence[Segment], tokens: list[bytes | None], thoughts: set[int]
) -> None:
    """Give the answer's segments the very tokens that the model wrote, where the text is the same."""
    text, wrote = chain.wrote
    if not wrote:
        return
    for end in range(begin + 1, min(len(new), begin + _MAX_ITEMS_OF_ANSWER) + 1):
        if thoughts & set(range(begin, end)):
            return
        if plain(new[begin:end]) == text:
            tokens[begin:end] = [wrote, *([b""] * (end - begin - 1))]
            return


def _same(known: Sequence[Item], items: Sequence[Item]) -> int:
    """How many items both begin with."""
    pairs: Iterable[tuple[Item, Item]] = zip(known, items, strict=False)
    return next(
        (place for place, (one, other) in enumerate(pairs) if one is not other and one != other),
        min(len(known), len(items)),
    )


def packed(tokens: Iterable[int]) -> bytes:
    """Tokens as they are kept."""
    return array("I", tokens).tobytes()


def unpacked(kept: bytes) -> list[int]:
    """Tokens as an engine takes them."""
    return array("I", kept).tolist()
