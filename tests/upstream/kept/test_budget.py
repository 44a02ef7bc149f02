from __future__ import annotations

import weakref
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.upstream.helpers import WEATHER, items, members
from upstream.kept.budget import CONNECTION, KEY, LANE, PROCESS, WHOLE, Budget, Scope, weight
from upstream.stages.head import Told, head
from upstream.stages.pipeline import EMPTY, extend
from upstream.stages.resolve import Resolved, read_offer
from upstream.stages.style import Style

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(eq=False)
class Holds:
    name: str = ""
    size: int = 0
    pinned: bool = False
    scopes: tuple[Scope, ...] = (WHOLE,)
    gone: list[str] = field(default_factory=list)

    def evict(self) -> None:
        assert not self.pinned
        self.size = 0
        self.gone.append(self.name)


def names(holders: Iterable[Holds]) -> list[str]:
    return [holder.name for holder in holders if not holder.size]


def put(budget: Budget, holder: Holds, size: int) -> None:
    holder.size, holder.pinned = size, False
    budget.hold(holder, size, holder.scopes)


def test_what_fits_stays() -> None:
    budget = Budget({PROCESS: 10})
    holder = Holds()
    put(budget, holder, 10)

    assert (holder.size, budget.used(), budget.held(holder)) == (10, 10, 10)
    assert budget.held(Holds()) == 0


def test_the_largest_goes_first_and_no_more_than_have_to() -> None:
    budget = Budget({PROCESS: 100})
    small, large, middle, new = (Holds(name) for name in ("small", "large", "middle", "new"))
    for holder, size in ((small, 10), (large, 50), (middle, 30), (new, 15)):
        put(budget, holder, size)

    assert names((small, large, middle, new)) == ["large"]
    assert budget.used() == 55


def test_of_equally_large_ones_that_which_changed_least_lately_goes() -> None:
    budget = Budget({PROCESS: 30})
    a, b, c, d = (Holds(name) for name in "abcd")
    for holder in (a, b, c, a, d):
        put(budget, holder, 10)

    assert names((a, b, c, d)) == ["b"]


def test_one_that_is_too_large_by_itself_goes_alone() -> None:
    budget = Budget({LANE: 20, PROCESS: 100})
    small, large = Holds("small"), Holds("large")
    for holder in (small, large):
        holder.scopes = (Scope(LANE, holder), WHOLE)
    put(budget, small, 20)
    put(budget, large, 21)

    assert names((small, large)) == ["large"]
    assert budget.used() == 20


def test_a_full_scope_takes_from_its_own_alone() -> None:
    budget = Budget({KEY: 50, PROCESS: 1000})
    theirs = Holds("theirs", scopes=(Scope(KEY, b"a"), WHOLE))
    mine = [Holds(name, scopes=(Scope(KEY, b"b"), WHOLE)) for name in "xy"]
    put(budget, theirs, 40)
    for holder in mine:
        put(budget, holder, 30)

    assert names((theirs, *mine)) == ["x"]


def test_a_level_without_a_limit_is_not_counted() -> None:
    budget = Budget({PROCESS: 10})
    put(budget, Holds(scopes=(Scope(KEY, b"a"), WHOLE)), 10)

    assert budget.used(Scope(KEY, b"a")) == 0


def test_letting_go_may_charge_another_with_what_was_shared() -> None:
    budget = Budget({PROCESS: 100})
    parent = Holds("parent")

    class Child(Holds):
        def evict(self) -> None:
            super().evict()
            parent.size = 60
            budget.charge(parent, 60, parent.scopes)

    child = Child("child")
    put(budget, parent, 1)
    put(budget, child, 90)
    put(budget, Holds(), 45)

    assert child.gone == ["child"]
    assert parent.gone == ["parent"]
    assert budget.used() == 45


def test_it_is_told_which_level_was_too_full() -> None:
    told: list[str] = []
    put(Budget({KEY: 5, PROCESS: 10}, told.append), Holds(scopes=(Scope(KEY, b"a"), WHOLE)), 8)

    assert told == [KEY]


def test_empty_accounts_are_forgotten() -> None:
    budget = Budget({CONNECTION: 10, PROCESS: 10})
    for number in range(100):
        holder = Holds(scopes=(Scope(CONNECTION, number), WHOLE))
        put(budget, holder, 5)
        budget.release(holder)
        budget.release(holder)

    assert not budget._accounts
    assert not budget._holders


def test_a_holder_that_lets_go_is_not_kept_alive() -> None:
    budget = Budget({PROCESS: 1000})
    stays, goes, changes = Holds(), Holds(), Holds()
    for holder, size in ((stays, 900), (goes, 10), (changes, 20), (changes, 30)):
        put(budget, holder, size)
    known = weakref.ref(goes)
    budget.release(goes)
    del goes, holder

    assert known() is None
    put(budget, Holds(), 80)
    assert (stays.size, changes.size) == (0, 30)


def test_one_that_is_pinned_stays_and_others_go_for_it() -> None:
    budget = Budget({PROCESS: 100})
    small, large, pinned = Holds("small"), Holds("large"), Holds("pinned", pinned=True)
    put(budget, small, 10)
    put(budget, large, 50)

    assert budget.pin(pinned, 90, (WHOLE,))
    assert names((small, large)) == ["large"]
    put(budget, large, 5)
    assert (names((small,)), large.size, budget.used()) == (["small"], 5, 95)


def test_one_for_which_others_that_are_pinned_leave_no_room_changes_nothing() -> None:
    budget = Budget({KEY: 60, PROCESS: 100})
    holder, pinned, late = Holds(), Holds(pinned=True), Holds(pinned=True)
    put(budget, holder, 40)
    budget.pin(pinned, 60, (Scope(KEY, 1), WHOLE))

    assert not budget.pin(late, 41, (Scope(KEY, 2), WHOLE))
    assert not budget.pin(late, 1, (Scope(KEY, 1), WHOLE))
    assert (holder.size, budget.used(), budget.held(late)) == (40, 100, 0)
    put(budget, pinned, 60)
    assert budget.pin(late, 41, (Scope(KEY, 2), WHOLE))
    assert names((holder, pinned)) == [""]


def test_what_is_out_of_date_does_not_pile_up() -> None:
    budget = Budget({PROCESS: 10**9})
    holder = Holds()
    for size in range(1, 10_000):
        put(budget, holder, size)

    assert len(budget._accounts[WHOLE].heap) < 100


class Accounting(RuleBasedStateMachine):
    """Against a plain list of who holds what."""

    LIMITS = {LANE: 40, CONNECTION: 60, KEY: 90, PROCESS: 150}  # noqa: RUF012 - never changed

    def __init__(self) -> None:
        super().__init__()
        self.budget = Budget(self.LIMITS)
        self.holders = [Holds(str(n), scopes=(Scope(CONNECTION, n // 2), Scope(KEY, n // 4), WHOLE)) for n in range(12)]
        for holder in self.holders:
            holder.scopes = (Scope(LANE, holder), *holder.scopes)

    @rule(which=st.integers(0, 11), size=st.integers(1, 50))
    def hold(self, which: int, size: int) -> None:
        put(self.budget, self.holders[which], size)

    @rule(which=st.integers(0, 11), size=st.integers(1, 50))
    def pin(self, which: int, size: int) -> None:
        holder = self.holders[which]
        holder.size, holder.pinned = 0, False
        others = [one for one in self.holders if one.pinned]
        fits = all(
            size + sum(one.size for one in others if scope in one.scopes) <= self.LIMITS[scope.level]
            for scope in holder.scopes
        )
        holder.pinned = fits
        if fits:
            holder.size = size
        assert self.budget.pin(holder, size, holder.scopes) == fits

    @rule(which=st.integers(0, 11))
    def release(self, which: int) -> None:
        self.holders[which].size, self.holders[which].pinned = 0, False
        self.budget.release(self.holders[which])

    @invariant()
    def every_scope_holds_the_sum_of_its_holders_within_its_limit(self) -> None:
        for scope in {scope for holder in self.holders for scope in holder.scopes}:
            total = sum(holder.size for holder in self.holders if scope in holder.scopes)
            assert self.budget.used(scope) == total <= self.LIMITS[scope.level]


TestAccounting = Accounting.TestCase
TestAccounting.settings = settings(max_examples=40, deadline=None)


@given(st.lists(st.integers(1, 60), min_size=1, max_size=30), st.integers(60, 200))
def test_what_stays_is_never_larger_than_what_went_last(sizes: list[int], limit: int) -> None:
    budget = Budget({PROCESS: limit})
    holders = [Holds(str(size)) for size in sizes]
    for holder, size in zip(holders, sizes, strict=True):
        before = [one for one in holders if one.size]
        put(budget, holder, size)
        went = [one for one in (*before, holder) if not one.size]
        if went:
            assert max(one.size for one in (*before, holder)) <= min(int(one.name) for one in went)
    assert budget.used() == sum(holder.size for holder in holders) <= limit


def test_the_weight_counts_items_bytes_tools_and_what_stands_before_them() -> None:
    few = extend(EMPTY, items("x" * 10_000))
    many = extend(EMPTY, items(*("x" for _ in range(100))))
    offer = read_offer(members(tools=[WEATHER] * 100)["tools"])

    assert 10_000 + few.rendered.size < weight(few) < 25_000
    assert weight(many) > 100 * 1000
    assert weight(few.under(Resolved("m", offer))) > weight(few) + 5 * len(offer.raw)
    told = head(Style(), Told("x" * 10_000))
    assert weight(replace(few, head=told)) > weight(few) + 10_000 + len(told.raw)
