"""The index of heads: who is found, who goes first, and that the budget holds whatever happens."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from state.digest import SIZE
from state.envelope import Envelope
from state.heads import MAX_ALIKE, AnswerItem, Head, HeadIndex, Prefix

ONE, TWO = b"1" * SIZE, b"2" * SIZE
ROOM = 10**6
_NUMBERS = itertools.count(1)


def digest() -> bytes:
    return next(_NUMBERS).to_bytes(SIZE, "big")


def a_head(**changes: Any) -> Head:
    made = Head(
        tenant=ONE,
        response_id=f"resp_{next(_NUMBERS)}",
        stored=False,
        envelope=Envelope(()),
        base_count=2,
        base=digest(),
        chain=digest(),
        answer=(AnswerItem((digest(),), digest()),),
        prefix=Prefix(7, digest()),
        link=1,
    )
    return replace(made, **changes)


def prefix_of(head: Head) -> Prefix:
    assert head.prefix is not None
    return head.prefix


def reference_of(head: Head) -> bytes:
    reference = head.answer[0].reference
    assert reference is not None
    return reference


def full(*heads: Head, room: int = 0) -> HeadIndex:
    """An index with exactly these heads and `room` bytes to spare: for the id of one more item, not for a head."""
    index = HeadIndex(ROOM)
    for head in heads:
        index.add(head)
    index._max_bytes = index.weight + room
    return index


def test_a_head_is_found_by_its_prefix_and_by_its_chains() -> None:
    head = a_head(other_chain=digest())
    index = full(head)
    assert index.with_prefix(ONE, prefix_of(head)) == (head,)
    assert index.with_chain(ONE, head.chain) == (head,)
    assert index.with_chain(ONE, head.other_chain or b"") == (head,)
    assert index.lengths(ONE) == [7]


def test_a_prefix_of_the_same_length_with_other_bytes_is_another_one() -> None:
    head = a_head()
    assert full(head).with_prefix(ONE, Prefix(7, digest())) == ()


def test_lengths_are_ascending_and_each_is_there_once() -> None:
    heads = [a_head(prefix=Prefix(length, digest())) for length in (30, 4, 30, 100)]
    assert full(*heads).lengths(ONE) == [4, 30, 100]


def test_of_heads_in_the_same_place_the_latest_comes_first() -> None:
    prefix, chain = Prefix(7, digest()), digest()
    older, newer = (a_head(prefix=prefix, chain=chain) for _ in range(2))
    index = full(older, newer)
    assert index.with_prefix(ONE, prefix) == (newer, older)
    assert index.with_chain(ONE, chain) == (newer, older)


def test_tenants_see_nothing_of_each_other() -> None:
    head = a_head(tenant=ONE)
    index = full(head)
    assert index.lengths(TWO) == ()
    assert index.with_prefix(TWO, prefix_of(head)) == ()
    assert index.with_chain(TWO, head.chain) == ()
    assert index.referred(TWO, reference_of(head)) is None


def test_a_dropped_head_is_found_nowhere_and_dropping_it_again_does_nothing() -> None:
    head, other = a_head(), a_head()
    index = full(head, other)
    for _ in range(2):
        index.drop(head)
        assert index.with_prefix(ONE, prefix_of(head)) == ()
        assert index.with_chain(ONE, head.chain) == ()
        assert head not in index
        assert list(index) == [other]


def test_dropping_one_of_two_in_the_same_place_leaves_the_other() -> None:
    chain, prefix = digest(), Prefix(7, digest())
    one, two = (a_head(chain=chain, prefix=prefix) for _ in range(2))
    index = full(one, two)
    index.drop(one)
    assert index.with_chain(ONE, chain) == index.with_prefix(ONE, prefix) == (two,)


def test_a_head_that_was_never_added_is_dropped_and_touched_without_harm() -> None:
    index = full(a_head())
    index.drop(a_head())
    index.touch(a_head())
    assert len(index) == 1


def test_adding_a_head_twice_counts_it_once() -> None:
    head = a_head()
    index = full(head)
    weight = index.weight
    index.add(head)
    assert (len(index), index.weight, index.with_chain(ONE, head.chain)) == (1, weight, (head,))


def test_nothing_is_left_behind_when_all_is_dropped() -> None:
    heads = [a_head(other_chain=digest()) for _ in range(5)]
    index = full(*heads)
    for head in heads:
        index.drop(head)
    assert (len(index), index._tenants) == (0, {})
    assert index.weight < min(head.weight for head in heads)


def test_without_room_the_least_recently_used_head_goes() -> None:
    old, used, new = a_head(), a_head(), a_head()
    index = full(old, used, room=300)
    index.touch(old)
    index.add(new)
    assert list(index) == [old, new]


def test_a_leased_head_stays_however_old_it_is() -> None:
    leased, other = a_head(), a_head()
    index = full(leased, other)
    index.lease(leased)
    index.touch(other)
    for _ in range(9):
        index.add(a_head())
    assert leased in index
    assert other not in index


def test_when_all_are_leased_the_budget_waits_for_a_release() -> None:
    heads = [a_head() for _ in range(3)]
    index = full(heads[0])
    for head in heads:
        index.lease(head)
        index.add(head)
    assert len(index) == 3
    index.release(heads[1])
    assert list(index) == [heads[0], heads[2]]


def test_each_lease_is_given_back_once() -> None:
    head = a_head()
    index = full(head)
    index.lease(head)
    index.lease(head)
    index.release(head)
    index.release(head)
    with pytest.raises(ValueError, match="not leased"):
        index.release(head)


@pytest.mark.parametrize("same", ["prefix", "chain"])
def test_of_many_heads_in_one_place_the_least_recently_used_goes_first_and_a_leased_one_never(same: str) -> None:
    first = a_head()
    alike = [first, *(a_head(**{same: getattr(first, same)}) for _ in range(MAX_ALIKE + 1))]
    elsewhere = a_head()
    index = full(elsewhere, *alike[:MAX_ALIKE], room=ROOM)
    index.lease(first)
    index.touch(alike[1])
    for head in alike[MAX_ALIKE:]:
        index.add(head)
    assert [head for head in (elsewhere, *alike) if head not in index] == alike[2:4]
    index.release(first)


def test_a_place_in_which_all_others_are_leased_takes_one_more() -> None:
    first = a_head()
    index = HeadIndex(ROOM)
    for head in (first, *(a_head(chain=first.chain) for _ in range(MAX_ALIKE))):
        index.add(head)
        index.lease(head)
    assert len(index) == MAX_ALIKE + 1


def test_leasing_counts_as_use() -> None:
    one, two = a_head(), a_head()
    index = full(one, two)
    index.lease(one)
    index.release(one)
    assert list(index) == [two, one]


def test_what_an_id_names_is_known_after_its_head_is_gone() -> None:
    head = a_head()
    index = full(head)
    index.drop(head)
    assert index.referred(ONE, reference_of(head)) == head.answer[0].digests[0]


def test_references_take_at_most_their_share_and_the_least_recently_used_goes_first() -> None:
    index = HeadIndex(ROOM)
    names = [digest() for _ in range(ROOM // 200)]
    index.refer(ONE, names[0], b"a" * SIZE)
    for name in names[1:]:
        index.refer(ONE, name, b"b" * SIZE)
        assert index.referred(ONE, names[0]) == b"a" * SIZE
    assert index.referred(ONE, names[1]) is None
    assert ROOM // 5 < index.weight <= ROOM // 4


def test_a_reference_named_again_is_counted_once_and_means_the_latest() -> None:
    index, name = HeadIndex(ROOM), digest()
    index.refer(ONE, name, b"a" * SIZE)
    weight = index.weight
    index.refer(ONE, name, b"b" * SIZE)
    assert (index.weight, index.referred(ONE, name)) == (weight, b"b" * SIZE)


def test_an_index_without_room_keeps_nothing() -> None:
    index = HeadIndex(0)
    index.add(a_head())
    assert (len(index), index.weight, index._tenants) == (0, 0, {})


@given(st.integers(0, 5))
def test_a_head_covers_its_input_and_its_answer(answered: int) -> None:
    head = a_head(base_count=3, answer=tuple(AnswerItem((digest(),)) for _ in range(answered)))
    assert head.count == 3 + answered
    assert head.weight >= a_head(answer=()).weight


@pytest.mark.parametrize(("other", "chains"), [(None, [ONE]), (ONE, [ONE]), (TWO, [ONE, TWO])])
def test_a_head_has_one_chain_or_two_different_ones(other: bytes | None, chains: list[bytes]) -> None:
    assert list(a_head(chain=ONE, other_chain=other).chains) == chains


def test_repr_tells_where_a_head_is_and_nothing_of_what_it_covers() -> None:
    head = a_head(response_id="resp_x", link=4)
    assert repr(head) == "<Head resp_x 3 items, link 4, 0 leases>"
    assert repr(a_head(response_id="resp_x", link=None, stored=True)) == "<Head resp_x 3 items, stored, 0 leases>"


class Operations(RuleBasedStateMachine):
    """Anything in any order, against a plain list kept beside it."""

    @initialize(room=st.integers(0, 40_000))
    def begin(self, room: int) -> None:
        self.index = HeadIndex(room)
        self.room = room
        self.heads: list[Head] = []

    @rule(
        tenant=st.sampled_from([ONE, TWO]),
        length=st.none() | st.integers(1, 3),
        answered=st.integers(0, 4),
        twin=st.booleans(),
        data=st.data(),
    )
    def add(self, *, tenant: bytes, length: int | None, answered: int, twin: bool, data: st.DataObject) -> None:
        prefix = None if length is None else Prefix(length, data.draw(st.sampled_from([b"p" * SIZE, b"q" * SIZE])))
        chain = data.draw(st.sampled_from([b"c" * SIZE, b"d" * SIZE, digest()]))
        head = a_head(
            tenant=tenant,
            prefix=prefix,
            chain=chain,
            other_chain=chain if twin else data.draw(st.sampled_from([None, b"c" * SIZE])),
            answer=tuple(AnswerItem((digest(),), digest()) for _ in range(answered)),
        )
        self.heads.append(head)
        self.index.add(head)

    @precondition(lambda self: self.heads)
    @rule(data=st.data(), what=st.sampled_from(["add", "drop", "touch", "lease", "release"]))
    def do(self, data: st.DataObject, what: str) -> None:
        head = data.draw(st.sampled_from(self.heads))
        if what == "release" and not head.leases:
            with pytest.raises(ValueError, match="not leased"):
                self.index.release(head)
        else:
            getattr(self.index, what)(head)

    @rule(tenant=st.sampled_from([ONE, TWO]))
    def refer(self, tenant: bytes) -> None:
        self.index.refer(tenant, digest(), digest())

    @invariant()
    def weigh(self) -> None:
        if not hasattr(self, "index"):
            return
        known = list(self.index)
        assert len(known) == len(set(known)) == len(self.index)
        references = len(self.index._references) * 220
        assert self.index.weight == sum(head.weight for head in known) + references
        assert self.index.weight <= self.room or all(head.leases for head in known)

    @invariant()
    def find(self) -> None:
        if not hasattr(self, "index"):
            return
        known = set(self.index)
        for tenant in (ONE, TWO):
            mine = {head for head in known if head.tenant == tenant}
            assert (
                self.index.lengths(tenant) == sorted({head.prefix.length for head in mine if head.prefix}) or not mine
            )
        for head in self.heads:
            for chain in (head.chain, head.other_chain):
                if chain is not None:
                    listed = self.index.with_chain(head.tenant, chain)
                    assert (listed.count(head) == 1) is (head in known)
            if head.prefix is not None:
                assert (head in self.index.with_prefix(head.tenant, head.prefix)) is (head in known)


TestOperations = Operations.TestCase
TestOperations.settings = settings(max_examples=40)
