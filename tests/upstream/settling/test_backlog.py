from __future__ import annotations

from itertools import count

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from upstream.settling.backlog import PORTION, PORTION_BYTES, Backlog


def _filled(number: int, *, most: int = 10**6, size: int = 1) -> Backlog[int]:
    backlog: Backlog[int] = Backlog(most=most, most_bytes=10**9)
    for entry in range(number):
        backlog.add(entry, size)
    return backlog


def test_portions_are_cut_from_the_front_within_their_bounds() -> None:
    backlog = _filled(2 * PORTION)

    assert backlog.portion() == list(range(PORTION))
    backlog.written()
    assert backlog.portion() == list(range(PORTION, 2 * PORTION))
    backlog.written()
    assert backlog.portion() == []


def test_an_entry_larger_than_a_portion_is_one_of_its_own() -> None:
    backlog = _filled(3, size=PORTION_BYTES + 1)

    assert backlog.portion() == [0]


def test_what_failed_comes_again_first_and_after_longer_and_longer_pauses() -> None:
    backlog = _filled(3)
    pauses = []
    for _ in range(8):
        assert backlog.portion() == [0, 1, 2]
        pauses.append(backlog.failed())

    assert pauses == sorted(pauses)
    assert (pauses[0], pauses[-1]) == (0.1, 5.0)
    backlog.portion()
    backlog.written()
    backlog.add(3, 1)
    backlog.portion()
    assert backlog.failed() == 0.1


def test_of_a_portion_that_is_partly_written_the_rest_comes_again() -> None:
    backlog = _filled(3)
    backlog.portion()
    backlog.failed(written=2)

    assert backlog.portion() == [2]


def test_places_are_given_until_all_are_taken_and_again_when_one_is_written() -> None:
    backlog: Backlog[str] = Backlog(most=2, most_bytes=100)

    assert [backlog.reserve() for _ in range(3)] == [True, True, False]
    backlog.add("a", 1, reserved=True)
    assert backlog.reserve() is False
    backlog.portion()
    backlog.written()
    assert backlog.reserve() is True


def test_bytes_count_as_well_as_entries() -> None:
    backlog: Backlog[str] = Backlog(most=10, most_bytes=100)
    backlog.add("a", 100)

    assert backlog.room is False
    backlog.portion()
    backlog.written()
    assert backlog.room is True


def test_optional_entries_are_given_up_only_when_the_sink_is_in_trouble() -> None:
    backlog: Backlog[str] = Backlog(most=2, most_bytes=100)
    for name in "abc":
        assert backlog.add(name, 1, optional=True) == []
    backlog.portion()
    backlog.failed()

    assert backlog.add("d", 1, optional=True) == ["a", "b"]
    assert backlog.portion() == ["c", "d"]


def test_what_is_under_way_and_what_is_not_optional_are_never_given_up() -> None:
    backlog: Backlog[str] = Backlog(most=1, most_bytes=100)
    backlog.add("needed", 1)
    backlog.add("a", 1, optional=True)
    backlog.portion()
    backlog.failed()
    backlog.portion()  # under way are both of them

    assert backlog.add("b", 1, optional=True) == ["b"]
    backlog.written()
    assert len(backlog) == 0


class _Machine(RuleBasedStateMachine):
    """Turns, a writer and trouble in any order, against a list of all that was put in."""

    MOST = 4

    def __init__(self) -> None:
        super().__init__()
        self.backlog: Backlog[int] = Backlog(most=self.MOST, most_bytes=10**6)
        self.numbers = count()
        self.running = 0
        self.needed: list[int] = []
        self.added: list[int] = []
        self.sink: list[int] = []
        self.gone: set[int] = set()
        self.under_way: list[int] = []

    @rule()
    def a_turn_begins(self) -> None:
        self.running += self.backlog.reserve()

    @precondition(lambda self: self.running)
    @rule()
    def a_turn_ends(self) -> None:
        self.running -= 1
        number = next(self.numbers)
        self.needed.append(number)
        self._add(number, reserved=True)

    @rule()
    def something_optional_comes(self) -> None:
        self._add(next(self.numbers), optional=True)

    def _add(self, number: int, *, reserved: bool = False, optional: bool = False) -> None:
        self.added.append(number)
        self.gone |= set(self.backlog.add(number, 1, reserved=reserved, optional=optional))

    @precondition(lambda self: not self.under_way)
    @rule()
    def the_writer_takes_a_portion(self) -> None:
        self.under_way = self.backlog.portion()

    @precondition(lambda self: self.under_way)
    @rule()
    def it_is_written(self) -> None:
        self.sink += self.under_way
        self.under_way = []
        self.backlog.written()

    @precondition(lambda self: self.under_way)
    @rule(data=st.data())
    def it_fails(self, data: st.DataObject) -> None:
        written = data.draw(st.integers(0, len(self.under_way) - 1))
        self.sink += self.under_way[:written]
        self.under_way = []
        self.backlog.failed(written)

    @invariant()
    def all_is_written_in_order_and_only_what_is_optional_is_ever_lost(self) -> None:
        left = [number for number in self.added if number not in self.gone]
        assert self.sink == left[: len(self.sink)]
        assert not self.gone & set(self.needed)
        assert len(self.backlog) == len(left) - len(self.sink)

    @invariant()
    def turns_that_run_and_lines_that_wait_are_bounded(self) -> None:
        waiting = set(self.added) - self.gone - set(self.sink)
        assert self.running + len(waiting & set(self.needed)) <= self.MOST


_Machine.TestCase.settings = settings(max_examples=60, stateful_step_count=40)
TestBacklog = _Machine.TestCase
