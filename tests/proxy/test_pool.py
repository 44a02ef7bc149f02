"""Which link a turn gets: rule by rule, then any history of a pool against what is promised of it."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from proxy.pool import CROWD, NURSERY, RETIRED_CAUSES, SPARE_IDLE, Dial, NoSlot, Pool, Slot, State, Use
from state.digest import EMPTY
from state.envelope import Envelope
from state.heads import AnswerItem, Head

ONE, TWO = b"1" * 16, b"2" * 16
AGE = 1000.0


def head(slot: Slot | None = None, *, stored: bool = False, turns: int = 2, tenant: bytes = ONE) -> Head:
    return Head(
        tenant=tenant,
        response_id="resp_1",
        stored=stored,
        envelope=Envelope(()),
        base_count=1,
        base=EMPTY,
        chain=EMPTY,
        answer=(AnswerItem((EMPTY,)),),
        link=slot.id if slot is not None else None,
        turns=turns,
    )


def opened(pool: Pool, now: float = 0.0, tenant: bytes = ONE, *, max_age: float = AGE) -> Slot:
    """A slot that was dialed for a turn and is BUSY with it."""
    found = pool.acquire(tenant, None, now)
    assert isinstance(found, Dial)
    pool.opened(found.slot, now, max_age=max_age)
    pool.claim(found.slot, now)
    return found.slot


def holding(pool: Pool, now: float = 0.0, *, stored: bool = False, turns: int = 2, tenant: bytes = ONE) -> Slot:
    """An idle slot that holds a head."""
    slot = opened(pool, now, tenant)
    pool.release(slot, head(slot, stored=stored, turns=turns, tenant=tenant), now)
    return slot


def fresh(pool: Pool, now: float = 0.0, tenant: bytes = ONE) -> Slot:
    """An idle slot without a conversation, as a spare becomes one."""
    slot = pool.spare(tenant, now)
    assert slot is not None
    pool.opened(slot, now, max_age=AGE)
    return slot


def latest(slot: Slot) -> Head:
    assert slot.latest is not None
    return slot.latest


# The order of choice


def test_a_turn_gets_the_slot_that_it_belongs_on() -> None:
    pool = Pool(9, AGE)
    mine, _ = holding(pool), fresh(pool)
    assert pool.acquire(ONE, mine.id, 1.0) == Use(mine)
    assert (mine.state, mine.last_used) == (State.BUSY, 1.0)


def test_a_slot_of_another_tenant_is_never_used_even_when_it_is_wanted() -> None:
    pool = Pool(9, AGE)
    theirs = fresh(pool, tenant=TWO)
    found = pool.acquire(ONE, theirs.id, 1.0)
    assert isinstance(found, Dial)
    assert found.slot.tenant == ONE


def test_a_wanted_slot_that_is_busy_is_not_used() -> None:
    pool = Pool(9, AGE)
    busy, free = opened(pool), fresh(pool)
    assert pool.acquire(ONE, busy.id, 1.0) == Use(free)


def test_a_slot_that_was_young_enough_at_planning_is_still_so_at_once_after() -> None:
    pool = Pool(9, AGE)
    slot = holding(pool)
    assert pool.reason_against(latest(slot), AGE - 1e-9) == ""
    assert pool.acquire(ONE, slot.id, AGE + 1e-9) == Use(slot)


def test_a_fresh_slot_comes_before_a_new_one_and_the_latest_used_first() -> None:
    pool = Pool(9, AGE)
    holding(pool)
    older = fresh(pool, 1.0)
    pool.claim(older, 1.0)
    newer = fresh(pool, 2.0)
    pool.release(older, None, 1.5)
    assert pool.acquire(ONE, None, 3.0) == Use(newer)
    assert pool.acquire(ONE, None, 3.0) == Use(older)


def test_a_new_slot_comes_before_any_that_holds_a_head() -> None:
    pool = Pool(9, AGE)
    holding(pool, stored=True)
    holding(pool, turns=1)
    assert isinstance(pool.acquire(ONE, None, 1.0), Dial)


def test_beyond_the_nursery_the_oldest_conversation_of_one_turn_gives_way() -> None:
    pool = Pool(99, AGE)
    holding(pool, stored=True)
    young = [holding(pool, float(at), turns=1) for at in range(NURSERY)]
    assert pool.acquire(ONE, None, 50.0) == Use(young[0])
    assert isinstance(pool.acquire(ONE, None, 51.0), Dial)


def test_the_nursery_of_another_tenant_does_not_count() -> None:
    pool = Pool(99, AGE)
    for at in range(NURSERY):
        holding(pool, float(at), turns=1, tenant=TWO)
    assert isinstance(pool.acquire(ONE, None, 50.0), Dial)


def test_at_the_bound_the_nursery_gives_way_then_a_stored_head_then_the_least_recently_used_of_anyone() -> None:
    pool = Pool(4, AGE)
    theirs = holding(pool, 1.0, tenant=TWO)
    long, stored, young = holding(pool, 2.0), holding(pool, 3.0, stored=True), holding(pool, 4.0, turns=1)
    assert pool.acquire(ONE, None, 5.0) == Use(young)
    assert pool.acquire(ONE, None, 5.0) == Use(stored)
    for instead in (theirs, long):
        found = pool.acquire(ONE, None, 5.0)
        assert isinstance(found, Dial)
        assert found.instead is instead
        pool.opened(found.slot, 5.0, max_age=AGE)
        pool.claim(found.slot, 5.0)
        assert pool.get(instead.id) is None
    assert pool.acquire(ONE, None, 5.0) == NoSlot("links_exhausted")
    assert len(pool) == 4


def test_a_slot_too_old_is_not_given_to_a_turn_that_does_not_belong_there() -> None:
    pool = Pool(9, AGE)
    fresh(pool)
    assert isinstance(pool.acquire(ONE, None, AGE), Dial)


def test_while_no_link_may_be_opened_no_slot_is_made_and_none_given_up_for_one() -> None:
    pool = Pool(2, AGE)
    theirs = holding(pool, tenant=TWO)
    assert pool.acquire(ONE, None, 1.0, "dial_failed") == NoSlot("dial_failed"), "there is room"
    long = opened(pool, 2.0)
    assert pool.acquire(ONE, None, 3.0, "dials_limited") == NoSlot("dials_limited"), "there is none"
    assert list(pool) == [theirs, long]
    assert pool.acquire(TWO, theirs.id, 3.0, "dial_failed") == Use(theirs)
    assert pool.acquire(ONE, None, 3.0, "dial_failed") == NoSlot("links_exhausted")


# The spare


def test_a_spare_is_opened_where_the_tenant_has_none_and_there_is_room() -> None:
    pool = Pool(9, AGE)
    opened(pool)
    fresh(pool, tenant=TWO)
    slot = pool.spare(ONE, 1.0)
    assert slot is not None
    assert (slot.state, slot.tenant) == (State.DIALING, ONE)
    assert pool.spare(ONE, 1.0) is None, "one is on its way"
    pool.opened(slot, 1.0, max_age=AGE)
    assert pool.spare(ONE, 1.0) is None, "one is there"
    pool.claim(slot, 1.0)
    pool.max_links = 3
    assert pool.spare(ONE, 1.0) is None, "no room"
    pool.max_links = 4
    assert pool.spare(ONE, 1.0) is not None


def test_out_of_a_crowd_of_conversations_of_one_turn_the_oldest_place_is_the_spare() -> None:
    pool = Pool(256, AGE)
    proven, other = holding(pool), holding(pool, turns=1, tenant=TWO)
    begun: list[Slot] = []
    for number in range(CROWD):
        slot = fresh(pool, number)
        pool.claim(slot, number)
        pool.release(slot, head(slot, turns=1), number)
        begun.append(slot)
    place = latest(begun[0])
    assert pool.spare(ONE, CROWD) is None, "nothing is opened"
    assert begun[0].fresh
    assert pool.reason_against(place, CROWD) == "superseded"
    assert pool.spare(ONE, CROWD) is None, "one is there"
    assert all(slot.latest is not None for slot in (proven, other, *begun[1:]))


def test_calls_that_stand_alone_open_a_bounded_number_of_links() -> None:
    pool = Pool(256, AGE)
    for number in range(3 * CROWD):
        found = pool.acquire(ONE, None, number)
        if isinstance(found, Dial):
            pool.opened(found.slot, number, max_age=AGE)
            pool.claim(found.slot, number)
        assert not isinstance(found, NoSlot)
        if (spare := pool.spare(ONE, number)) is not None:
            pool.opened(spare, number, max_age=AGE)
        pool.release(found.slot, head(found.slot, turns=1), number)
    assert len(pool) <= CROWD + 2


# What is due


def test_idle_slots_are_retired_by_age_and_busy_ones_are_not() -> None:
    pool = Pool(9, AGE)
    old, busy = holding(pool), opened(pool)
    assert pool.due(AGE - 1) == []
    assert pool.due(AGE) == [(old, "retired")]
    assert busy.state is State.BUSY


def test_a_slot_lives_no_longer_than_the_smaller_of_both_limits() -> None:
    assert opened(Pool(9, AGE), 5.0, max_age=10.0).retire_at == 15.0
    pool = Pool(9, AGE)
    slot = opened(pool, 5.0)
    pool.opened(slot, 5.0, max_age=10.0, share=0.5)
    assert slot.retire_at == 10.0
    assert opened(Pool(9, 10.0), 5.0, max_age=AGE).retire_at == 15.0


def test_a_fresh_slot_stays_warm_as_long_as_its_tenant_is_in_use() -> None:
    pool = Pool(9, AGE)
    used = holding(pool)
    spare, other = fresh(pool), fresh(pool, tenant=TWO)
    pool.acquire(ONE, used.id, 10.0)
    assert pool.due(SPARE_IDLE) == []
    assert pool.due(SPARE_IDLE + 1) == [(other, "idle")], "a turn of the first tenant is running"
    pool.release(used, head(used), SPARE_IDLE + 1)
    assert pool.due(2 * SPARE_IDLE + 1) == [(other, "idle")]
    assert pool.due(2 * SPARE_IDLE + 2) == [(spare, "idle"), (other, "idle")], "the used one holds a head"


# Why a head cannot be continued


def test_a_head_is_continued_on_its_link_when_it_is_the_newest_there_and_the_link_is_free() -> None:
    pool = Pool(9, AGE)
    slot = holding(pool)
    first = latest(slot)
    assert pool.reason_against(first, 1.0) == ""
    pool.acquire(ONE, slot.id, 1.0)
    assert pool.reason_against(first, 1.0) == "head_busy"
    pool.release(slot, head(slot), 2.0)
    assert pool.reason_against(first, 2.0) == "superseded"
    assert pool.reason_against(latest(slot), AGE) == "link_retired"
    assert pool.reason_against(head(None), 2.0) == "link_lost"


@pytest.mark.parametrize("cause", ["aborted", "closed_by_upstream", "client_gone", *sorted(RETIRED_CAUSES)])
def test_why_a_link_ended_is_told_of_the_heads_that_name_it(cause: str) -> None:
    pool = Pool(9, AGE)
    slot = holding(pool)
    assert pool.end(slot, cause)
    assert not pool.end(slot, "drain"), "it is gone already"
    expected = "link_retired" if cause in RETIRED_CAUSES else "link_lost"
    assert pool.reason_against(latest(slot), 1.0) == expected


def test_ends_are_remembered_for_a_bounded_number_of_links() -> None:
    pool = Pool(9, AGE)
    first = holding(pool)
    pool.end(first, "retired")
    for _ in range(4095):
        pool.end(opened(pool), "aborted")
    assert pool.reason_against(latest(first), 1.0) == "link_retired"
    pool.end(opened(pool), "aborted")
    assert pool.reason_against(latest(first), 1.0) == "link_lost"


# Misuse and what is shown


@pytest.mark.parametrize("state", [State.DIALING, State.IDLE])
def test_only_a_slot_in_use_can_be_released(state: State) -> None:
    pool = Pool(9, AGE)
    slot = pool.spare(ONE, 0.0)
    assert slot is not None
    slot.state = state
    with pytest.raises(ValueError, match="is not in use"):
        pool.release(slot, None, 0.0)


def test_a_slot_shows_its_state_and_nothing_of_its_tenant_or_head() -> None:
    pool = Pool(9, AGE)
    assert repr(pool.spare(ONE, 0.0)) == "<Slot 1 dialing>"
    slot = opened(pool)
    assert repr(slot) == "<Slot 2 busy>"
    pool.release(slot, head(slot), 0.0)
    assert repr(slot) == "<Slot 2 idle holds a head>"


def test_slots_are_counted_by_state_and_listed() -> None:
    pool = Pool(9, AGE)
    assert pool.counts() == {"dialing": 0, "idle": 0, "busy": 0}
    slots = [opened(pool), holding(pool), fresh(pool), pool.spare(TWO, 0.0)]
    assert pool.counts() == {"dialing": 1, "idle": 2, "busy": 1}
    assert (list(pool), len(pool), pool.get(None), pool.get(99)) == (slots, 4, None, None)


class AnyHistory(RuleBasedStateMachine):
    """Turns, dials, ends and time in any order; after each step what the pool promises holds."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.busy: list[Slot] = []
        self.dialing: list[tuple[Slot, bool]] = []

    @initialize(bound=st.integers(1, 6))
    def build(self, bound: int) -> None:
        self.pool = Pool(bound, AGE)

    @rule(seconds=st.sampled_from([0.0, 1.0, 5.0, SPARE_IDLE, AGE / 2]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule(
        tenant=st.sampled_from([ONE, TWO]),
        want=st.none() | st.integers(0, 12),
        against=st.sampled_from(["", "dial_failed"]),
    )
    def turn_begins(self, tenant: bytes, want: int | None, against: str) -> None:
        before = {slot.id: (slot.state, slot.latest, slot.last_used) for slot in self.pool}
        usable = [s for s in self.pool if s.tenant == tenant and s.state is State.IDLE and s.retire_at > self.now]
        idle = [slot for slot in self.pool if slot.state is State.IDLE]
        wanted = next((slot for slot in idle if slot.id == want and slot.tenant == tenant), None)
        room = len(self.pool) < self.pool.max_links
        found = self.pool.acquire(tenant, want, self.now, against)
        young = [slot for slot in usable if slot.latest is not None and slot.latest.turns <= 1]
        if found == NoSlot("dial_failed"):
            assert against
            assert room or idle
            assert wanted is None
            assert len(list(self.pool)) == len(before), "no slot is given up for nothing"
        elif isinstance(found, NoSlot):
            assert not idle
            assert not room
        elif isinstance(found, Dial):
            assert not against
            assert wanted is None
            assert not any(before[slot.id][1] is None for slot in usable), "a fresh one was there"
            assert found.slot.id not in before
            assert found.slot.tenant == tenant
            assert (found.instead is None) == room
            if found.instead is not None:
                assert before[found.instead.id][0] is State.IDLE
                assert all(before[found.instead.id][2] <= before[slot.id][2] for slot in idle)
                assert not any(slot.latest is not None and slot.latest.stored for slot in usable)
                assert not young
            self.dialing.append((found.slot, True))
        else:
            slot = found.slot
            assert before[slot.id][0] is State.IDLE
            assert slot.tenant == tenant
            if slot is not wanted:
                assert wanted is None
                held = before[slot.id][1]
                if held is not None:
                    assert not any(before[other.id][1] is None for other in usable)
                    assert not room or len(young) >= NURSERY
                    assert held.stored or held.turns <= 1
            self.busy.append(slot)

    @precondition(lambda self: self.dialing)
    @rule(data=st.data())
    def dial_ends(self, data: st.DataObject) -> None:
        slot, for_turn = self.dialing.pop(data.draw(st.integers(0, len(self.dialing) - 1)))
        if data.draw(st.booleans()):
            self.pool.opened(slot, self.now, max_age=AGE)
            if for_turn:
                self.pool.claim(slot, self.now)
                self.busy.append(slot)
        else:
            assert self.pool.end(slot, "aborted")

    @precondition(lambda self: self.busy)
    @rule(data=st.data(), stored=st.booleans(), turns=st.integers(1, 2), continued=st.booleans())
    def turn_ends(self, *, data: st.DataObject, stored: bool, turns: int, continued: bool) -> None:
        slot = self.busy.pop(data.draw(st.integers(0, len(self.busy) - 1)))
        made = head(slot, stored=stored, turns=turns, tenant=slot.tenant) if continued else None
        self.pool.release(slot, made, self.now)
        if made is not None:
            assert self.pool.reason_against(made, self.now) == ("link_retired" if slot.retire_at <= self.now else "")

    @precondition(lambda self: self.busy)
    @rule(data=st.data())
    def link_dies_in_a_turn(self, data: st.DataObject) -> None:
        slot = self.busy.pop(data.draw(st.integers(0, len(self.busy) - 1)))
        assert self.pool.end(slot, "aborted")

    @rule(tenant=st.sampled_from([ONE, TWO]))
    def spare_is_kept(self, tenant: bytes) -> None:
        slot = self.pool.spare(tenant, self.now)
        if slot is not None:
            self.dialing.append((slot, False))

    @rule()
    def due_ones_are_closed(self) -> None:
        for slot, cause in self.pool.due(self.now):
            assert slot.state is State.IDLE
            assert cause == "retired" or slot.latest is None
            self.pool.end(slot, cause)

    @invariant()
    def promises_hold(self) -> None:
        slots = list(self.pool)
        assert len(slots) <= self.pool.max_links
        assert {s.id for s in slots if s.state is State.BUSY} == {slot.id for slot in self.busy}
        assert len({id(slot) for slot in self.busy}) == len(self.busy)
        assert sum(self.pool.counts().values()) == len(slots)
        assert all(slot.latest is None or slot.latest.tenant == slot.tenant for slot in slots)
        assert all(slot.fresh == (slot.state is State.IDLE and slot.latest is None) for slot in slots)


TestAnyHistory = AnyHistory.TestCase
TestAnyHistory.settings = settings(max_examples=150, stateful_step_count=40)


def test_withdrawn_links_of_a_tenant_end_when_they_are_idle_and_are_retired_when_they_are_not() -> None:
    pool = Pool(10, 100.0)
    slots = []
    for tenant in (ONE, ONE, TWO):
        found = pool.acquire(tenant, None, 0.0)
        assert isinstance(found, Dial)
        slots.append(found.slot)
    assert pool.withdraw(ONE, 0.0) == []
    for slot in slots:
        pool.opened(slot, 0.0, max_age=100.0)
    pool.claim(slots[1], 0.0)
    assert pool.withdraw(ONE, 1.0) == [slots[0]]
    pool.release(slots[1], None, 2.0)
    assert (slots[1], "retired") in pool.due(2.0)
    assert slots[2] not in [slot for slot, _ in pool.due(2.0)]
