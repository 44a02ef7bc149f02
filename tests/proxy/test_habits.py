"""Whose first turns are worth a link."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from proxy.habits import ALONE, Habits
from proxy.tenants import MAX_TENANTS

ME, YOU, NEW = b"me", b"you", b"new"


def alone(times: int = ALONE, tenant: bytes = ME) -> Habits:
    habits = Habits()
    for _ in range(times):
        habits.began(tenant)
    return habits


def test_whoever_never_goes_on_is_known_for_it_after_a_while() -> None:
    assert not Habits().one_shots(ME)
    assert not alone(ALONE - 1).one_shots(ME)
    assert alone(ALONE).one_shots(ME)


def test_going_on_once_is_enough_to_be_taken_for_someone_who_does() -> None:
    habits = alone(3 * ALONE)
    habits.went_on(ME)
    assert not habits.one_shots(ME)
    for _ in range(ALONE):
        habits.began(ME)
    assert habits.one_shots(ME)


def test_one_tenants_habits_are_no_others() -> None:
    habits = alone(3 * ALONE)
    assert not habits.one_shots(YOU)
    habits.began(YOU)
    habits.went_on(YOU)
    assert habits.one_shots(ME)


def test_a_newcomer_is_judged_by_newcomers() -> None:
    habits = Habits()
    for number in range(ALONE):
        assert not habits.one_shots(NEW)
        habits.began(b"%d" % number)
    assert habits.one_shots(NEW)
    habits.went_on(b"3")
    assert not habits.one_shots(NEW)


def test_a_tenant_that_only_ever_goes_on_says_nothing_of_newcomers() -> None:
    habits = Habits()
    for number in range(ALONE):
        habits.began(b"%d" % number)
        habits.went_on(YOU)
    assert habits.one_shots(NEW)


def test_of_tenants_without_end_the_last_are_remembered_and_newcomers_always() -> None:
    habits = Habits()
    for number in range(2 * MAX_TENANTS):
        habits.began(b"%d" % number)
    assert len(habits._alone) == MAX_TENANTS
    assert habits.one_shots(NEW)


@given(st.lists(st.tuples(st.sampled_from([ME, YOU, NEW]), st.booleans()), max_size=60))
def test_nobody_who_went_on_within_the_last_turns_is_taken_for_a_one_shot(turns: list[tuple[bytes, bool]]) -> None:
    habits = Habits()
    for tenant, on in turns:
        (habits.went_on if on else habits.began)(tenant)
    for tenant in {tenant for tenant, _ in turns}:
        own = [on for one, on in turns if one == tenant]
        assert habits.one_shots(tenant) == (len(own) >= ALONE and not any(own[-ALONE:]))
