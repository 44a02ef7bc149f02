"""Which heads a turn's `input` continues, and how. The theory stands in `state.heads`."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import deque
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import TYPE_CHECKING, NamedTuple

from state.canon import canonical, canonical_value, string_input
from state.context import START, extend, form_of, of_base
from state.digest import EMPTY
from state.echo import NEAR, near, same, taken
from state.heads import Head, HeadIndex, Prefix
from state.items import is_answer, is_reference, reference_id
from wire.exact import Inexact, parse
from wire.split import Malformed, elements

if TYPE_CHECKING:
    from collections.abc import Sequence

    from state.digest import Keyed

MAX_STEPS_BACK = 8
"""Known prefixes that are tried, the longest first: beyond a few edits back, a full turn is as good."""
MAX_BOUNDARIES = 16  # places that are remembered for a look elsewhere, the last ones
_AFTER_PREFIX = re.compile(rb"[ \t\r\n]*(,|\Z)")
_SPACE = b" \t\r\n"
_LAST_OF_ITEM = ord("}")
_ELSEWHERE = ("", "history_diverged")  # what may be an edit or a retry: a head may lie further back
_MAX_PARSED_AGAIN = 65536
"""Bytes of a known prefix that are parsed to look for such a head: a client that never echoes must not pay for all of
its history on each turn (tens of milliseconds for a megabyte)."""


@dataclass(frozen=True, slots=True)
class Item:
    """One item of an `input`: its raw bytes, its digest (`None` for a reference to an unknown id), what kind it is.

    `form` is what stands for it, as it was sent, in a chain to be compared (`state.context`).
    """

    raw: bytes
    digest: bytes | None
    form: bytes | None
    reference: bytes | None = None
    answer: bool = False


@dataclass(frozen=True, slots=True)
class Match:
    """A head that the turn continues, and the raw items that are new after it.

    `lenient`: the echo was not exact, and only an operator's leave makes this a match. `forms` are of the new items.
    """

    head: Head
    new: Sequence[bytes]
    lenient: bool = False
    forms: Sequence[bytes | None] | None = None


@dataclass(frozen=True, slots=True)
class Boundary:
    """A place where an answer ends and something new begins: a head may be known there elsewhere."""

    chain: bytes
    new: Sequence[bytes]
    forms: Sequence[bytes | None] | None = None


@dataclass(slots=True)
class Reading:
    """What is known of one `input`.

    `count`, `base` and `prefix` describe the whole input, for the head that this turn may become; `base` is `None`
    when an item is a reference to an unknown id. `near` is why the best candidate, `near_head`, was no match, empty
    when there was none. `boundaries` are the places where a head could still be known elsewhere, the last first.
    `unknown` are the references that nothing is known of: once the index knows them, reading again may tell more.
    `context` is the chain over the whole input as it was sent, bare (`state.context`); `None` where it is not known.
    """

    count: int
    base: bytes | None
    prefix: Prefix | None
    matches: list[Match] = field(default_factory=list)
    near: str = ""
    near_head: Head | None = None
    answers: bool = False
    boundaries: list[Boundary] = field(default_factory=list)
    unknown: list[bytes] = field(default_factory=list)
    context: bytes | None = None

    @property
    def unknown_reference(self) -> bool:
        """Whether an item refers to an id that nothing is known of."""
        return self.base is None


class _Before(NamedTuple):
    """What is known of the items before those that are read: how many, and their two chains."""

    size: int
    base: bytes
    context: bytes | None


_NOTHING = _Before(0, EMPTY, START)


class Matcher:
    """Reads inputs against the index."""

    def __init__(self, keyed: Keyed, index: HeadIndex, *, lenient: bool = False) -> None:
        self._keyed = keyed
        self._index = index
        self._lenient = lenient

    def read(self, tenant: bytes, raw: bytes) -> Reading:
        """The reading of a raw `input` member: an array of items, or a string. Raises `Malformed` for anything else."""
        if raw.startswith(b'"'):
            form = canonical(string_input(raw))
            # What cannot be read exactly stands for itself, and the message that a server makes of it is its own.
            item = Item(raw, self._keyed.form(form), form_of(form) if form.startswith(b"J") else None)
            return self._concluded(tenant, [item], _NOTHING, None)
        if not raw.startswith(b"["):
            raise Malformed("input is neither an array nor a string")
        inner = raw[1:-1].rstrip(_SPACE)
        prefix, known = self._known_prefixes(tenant, inner)
        if not known:
            return self._concluded(tenant, self._items(tenant, inner), _NOTHING, prefix)
        return self._from_known(tenant, inner, prefix, known)

    def _known_prefixes(self, tenant: bytes, inner: bytes) -> tuple[Prefix | None, list[tuple[int, Sequence[Head]]]]:
        """The prefix that the whole input is, and the heads whose base the input starts with, the longest first.

        The input is hashed once, over all its length, with a digest taken at each length that can be a border.
        """
        hasher = self._keyed.prefix_hasher()
        at = 0
        known: list[tuple[int, Sequence[Head]]] = []
        view = memoryview(inner)
        lengths = self._index.lengths(tenant)
        for length in lengths[: bisect_right(lengths, len(inner))]:
            if inner[length - 1] != _LAST_OF_ITEM or _AFTER_PREFIX.match(inner, length) is None:
                continue
            hasher.update(view[at:length])
            at = length
            heads = self._index.with_prefix(tenant, Prefix(length, hasher.copy().digest()))
            if heads:
                known.append((length, heads))
        hasher.update(view[at:])
        prefix = Prefix(len(inner), hasher.digest()) if inner else None
        known.reverse()
        return prefix, known[:MAX_STEPS_BACK]

    def _from_known(
        self,
        tenant: bytes,
        inner: bytes,
        prefix: Prefix | None,
        known: list[tuple[int, Sequence[Head]]],
    ) -> Reading:
        items: list[Item] = []
        end = len(inner)
        reading: Reading | None = None
        for length, heads in known:
            items = self._items(tenant, inner[length:end].lstrip(_SPACE).removeprefix(b",")) + items
            end = length
            if reading is None:
                before = _Before(heads[0].base_count, heads[0].base, of_base(self._keyed, heads[0]))
                reading = self._concluded(tenant, items, before, prefix)
                if items:
                    causes = [(near(head.answer, items), head) for head in heads]
                    reading.near, reading.near_head = min(causes, key=lambda cause: NEAR.index(cause[0]))
            found = [match for head in heads if (match := self._echoed(head, items)) is not None]
            reading.matches.extend(
                match for match in found if all(match.head is not old.head for old in reading.matches)
            )
            if reading.matches:
                break
        if reading is None:
            raise AssertionError("there is at least one known prefix")
        reading.answers |= known[0][1][0].answered
        if not reading.matches and reading.near in _ELSEWHERE and end <= _MAX_PARSED_AGAIN:
            whole = self._concluded(tenant, self._items(tenant, inner[:end]) + items, _NOTHING, prefix)
            reading.matches, reading.boundaries = whole.matches, whole.boundaries
            reading.context = whole.context
        reading.matches.sort(key=lambda match: (match.lenient, len(match.new)))
        return reading

    def _concluded(self, tenant: bytes, items: list[Item], before: _Before, prefix: Prefix | None) -> Reading:
        """The reading of an input that has `items` after what was known `before`."""
        reading = Reading(before.size + len(items), None, prefix, answers=any(item.answer for item in items))
        base = before.base
        unknown = (item.reference for item in items if item.digest is None)
        reading.unknown = list(dict.fromkeys(filter(None, unknown)))
        known: list[tuple[int, Head]] = []
        last: deque[tuple[int, bytes]] = deque(maxlen=MAX_BOUNDARIES)
        for place, (item, after) in enumerate(zip_longest(items, items[1:]), 1):
            if item.digest is None:
                break
            base = self._keyed.chain(base, item.digest)
            known[:0] = [(place, head) for head in self._index.with_chain(tenant, base)]
            if item.answer and after is not None and not after.answer:
                last.appendleft((place, base))
        else:
            reading.base = base
        raws, forms = [item.raw for item in items], [item.form for item in items]
        reading.context = extend(before.context, forms)
        # Cut where it is asked for: at each item, a long history takes minutes.
        reading.matches = [Match(head, raws[place:], forms=forms[place:]) for place, head in known]
        reading.boundaries = [Boundary(chain, raws[place:], forms[place:]) for place, chain in last]
        return reading

    def _items(self, tenant: bytes, inner: bytes) -> list[Item]:
        return [self._item(tenant, raw) for raw in elements(b"[%b]" % inner)]

    def _item(self, tenant: bytes, raw: bytes) -> Item:
        try:
            value = parse(raw)
            form = canonical_value(value)
        except Inexact:
            return Item(raw, self._keyed.item(raw), form_of(canonical(raw)))
        if not isinstance(value, dict):
            raise Malformed("an item is not an object")
        if is_reference(value):
            name = reference_id(value)
            if name is None:
                return Item(raw, None, form_of(form), answer=True)
            reference = self._keyed.name(name)
            return Item(raw, self._index.referred(tenant, reference), form_of(form), reference, answer=True)
        return Item(raw, self._keyed.form(form), form_of(form), answer=is_answer(value))

    def _echoed(self, head: Head, items: list[Item]) -> Match | None:
        """The match, when `items` begin with an echo of the head's answer."""
        answer = head.answer
        if len(items) >= len(answer) and all(map(same, answer, items)):
            return _match(head, items[len(answer) :])
        if self._lenient:
            count = taken(answer, items)
            if count is not None:
                return _match(head, items[count:], lenient=True)
        return None


def _match(head: Head, new: list[Item], *, lenient: bool = False) -> Match:
    return Match(head, [item.raw for item in new], lenient, [item.form for item in new])
