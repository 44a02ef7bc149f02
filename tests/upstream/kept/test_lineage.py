from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, rule

from upstream.kept import lineage
from upstream.kept.lineage import Lineage, Place

if TYPE_CHECKING:
    import pytest

_LOGS = count()


def _lineage() -> Lineage:
    return Lineage(lambda: b"log%d" % next(_LOGS))


def test_a_conversation_is_one_log() -> None:
    known = _lineage()
    first, second = known.add("a", None), known.add("b", "a")
    (log, _) = first.path[0]

    assert first == Place(((log, 1),))
    assert second == Place(((log, 2),))
    assert known.add("c", "b") == Place(((log, 3),))


def test_a_fork_is_a_new_log_behind_the_same_path_and_says_where() -> None:
    known = _lineage()
    (log, _) = known.add("a", None).path[0]
    known.add("b", "a")
    fork = known.add("c", "a")

    assert fork.path[0] == (log, 1)
    assert fork.path[1][0] != log
    assert fork.forks == (log, 1)
    assert fork.whole is False


def test_after_a_parent_of_which_nothing_is_known_the_whole_conversation_is_written() -> None:
    place = _lineage().add("b", "a")

    assert (len(place.path), place.whole) == (1, True)


def test_what_was_found_is_gone_on_from_in_a_log_of_ones_own() -> None:
    there, here = _lineage(), _lineage()
    path = there.add("a", None).path
    here.learn("a", path)

    assert here.add("b", "a").path[:1] == path
    assert here.path("a") == path


def test_when_logs_may_have_holes_nothing_goes_on_from_them() -> None:
    known = _lineage()
    known.add("a", None)
    known.forget()

    assert known.add("b", "a").whole is True


def test_a_path_does_not_grow_for_ever() -> None:
    here, there = _lineage(), _lineage()
    here.add("0", None)
    for number in range(1, lineage.LONGEST + 5):
        one, other = (here, there) if number % 2 == 0 else (there, here)
        one.learn(str(number - 1), other.path(str(number - 1)) or ())
        one.add(str(number), str(number - 1))

    assert len(here.path(str(lineage.LONGEST + 4)) or ()) < lineage.LONGEST


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lineage, "MOST", 10)
    known = _lineage()
    for number in range(100):
        known.add(str(number), None)

    assert known.path("0") is None
    assert known.add("x", "0").whole is True
    assert known.add("y", "99").whole is False


class _Machine(RuleBasedStateMachine):
    """Three processes that continue, fork, find, forget and restart, and a store of logs."""

    made = Bundle("made")

    def __init__(self) -> None:
        super().__init__()
        self.processes = [_lineage() for _ in range(3)]
        self.logs: dict[tuple[bytes, int], tuple[str, bool]] = {}
        self.paths: dict[str, lineage.Path] = {}
        self.turns: dict[str, list[str]] = {}
        self.names = count()

    def _read(self, path: lineage.Path) -> list[str]:
        read: list[str] = []
        for log, turns in path:
            for number in range(turns):
                name, whole = self.logs[log, number]
                read = [*self.turns[name]] if whole else [*read, name]
        return read

    @rule(target=made, process=st.integers(0, 2))
    def a_conversation_begins(self, process: int) -> str:
        return self._add(process, None)

    @rule(target=made, process=st.integers(0, 2), parent=made, looked_up=st.booleans())
    def it_goes_on(self, process: int, parent: str, looked_up: bool) -> str:  # noqa: FBT001 (drawn)
        if looked_up:
            self.processes[process].learn(parent, self.paths[parent])
        return self._add(process, parent)

    @rule(process=st.integers(0, 2), restarts=st.booleans())
    def a_process_forgets(self, process: int, restarts: bool) -> None:  # noqa: FBT001 (drawn)
        if restarts:
            self.processes[process] = _lineage()
        else:
            self.processes[process].forget()

    def _add(self, process: int, parent: str | None) -> str:
        name = str(next(self.names))
        place = self.processes[process].add(name, parent)
        log, turns = place.path[-1]
        assert (log, turns - 1) not in self.logs, "nothing is ever written over"
        self.turns[name] = [*(self.turns[parent] if parent is not None else ()), name]
        self.logs[log, turns - 1] = (name, place.whole)
        self.paths[name] = place.path
        assert self._read(place.path) == self.turns[name]
        return name


_Machine.TestCase.settings = settings(max_examples=50, stateful_step_count=30)
TestLineage = _Machine.TestCase
