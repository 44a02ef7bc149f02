from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.upstream.helpers import ASKED
from upstream.stages.pipeline import EMPTY
from upstream.turns.asked import Kept
from upstream.websocket.frame import Frame
from upstream.websocket.lanes import IN_FLIGHT, NAMES, Lanes
from wire.errors import connection_limit, invalid_request

if TYPE_CHECKING:
    from upstream.websocket.lane import Lane

_PLENTY = 1_000_000


def _lanes(waiting: int = _PLENTY, waiting_bytes: int = _PLENTY) -> Lanes:
    return Lanes(waiting=waiting, waiting_bytes=waiting_bytes)


def _frame(label: object, size: int = 1) -> Frame:
    return Frame({"input": repr(label).encode()}, size=size)


def _taken(lanes: Lanes) -> list[tuple[Lane, Frame]]:
    found = []
    while (entry := lanes.take()) is not None:
        found.append(entry)
    return found


def test_lanes_run_beside_each_other_and_frames_of_one_lane_one_after_the_other() -> None:
    lanes = _lanes()
    a, b, c = _frame("a"), _frame("b"), _frame("c")
    for name, frame in (("x", a), ("x", b), (None, c)):
        assert lanes.offer(name, frame) is None

    started = _taken(lanes)
    assert [(lane.name, frame) for lane, frame in started] == [("x", a), (None, c)]
    started[0][0].ended()
    assert [frame for _, frame in _taken(lanes)] == [b]
    assert not lanes.idle


def test_at_most_sixteen_run_and_the_next_starts_when_one_ends() -> None:
    lanes = _lanes()
    for number in range(IN_FLIGHT + 2):
        assert lanes.offer(f"lane-{number}", _frame(number)) is None

    started = _taken(lanes)
    assert len(started) == 16
    started[7][0].ended()
    assert [lane.name for lane, _ in _taken(lanes)] == ["lane-16"]


def test_of_the_frames_that_are_due_the_one_that_waited_longest_runs_first() -> None:
    lanes = Lanes(waiting=_PLENTY, waiting_bytes=_PLENTY, in_flight=1)
    for name in ("a", "b", "a", "c"):
        lanes.offer(name, _frame(name))

    order = []
    while (entry := lanes.take()) is not None:
        order.append(entry[0].name)
        entry[0].ended()
    assert order == ["a", "b", "a", "c"]


def test_there_are_thirty_two_names_in_the_life_of_a_connection_besides_the_default_lane() -> None:
    lanes = _lanes()
    for number in range(NAMES):
        assert lanes.offer(f"agent_{number}", _frame(number)) is None
    for lane, _ in _taken(lanes):
        lane.ended()
    error = lanes.offer("agent_33", _frame("one more"))

    assert error is not None
    assert (error.status, error.code, error.param) == (400, "websocket_stream_limit_reached", "stream_id")
    assert error.message == (
        "This WebSocket connection has reached its maximum number of distinct stream IDs (32). "
        "Reuse an existing stream_id or open a new WebSocket connection."
    )
    assert lanes.offer(None, _frame("default")) is None
    assert lanes.offer("agent_0", _frame("again")) is None


@pytest.mark.parametrize("full", [_lanes(waiting=1), _lanes(waiting_bytes=15)])
def test_what_would_be_too_much_to_wait_is_refused_and_takes_no_name(full: Lanes) -> None:
    assert full.offer(None, _frame(1, size=10)) is None
    error = full.offer("x", _frame(2, size=10))

    assert error is not None
    assert (error.status, error.code) == (429, "too_many_requests")
    assert [lane.name for lane, _ in _taken(full)] == [None]
    assert full.offer("x", _frame(2, size=10)) is None


def test_what_runs_does_not_count_as_waiting() -> None:
    lanes = _lanes(waiting_bytes=15)
    for label in range(5):
        assert lanes.offer("x", _frame(label, size=8)) is None
        ((lane, _),) = _taken(lanes)
        assert lanes.offer("x", _frame(label, size=8)) is None
        assert lanes.offer("x", _frame(label, size=8)) is not None
        lane.ended()
        ((lane, _),) = _taken(lanes)
        lane.ended()


def test_one_frame_may_be_larger_than_all_that_may_wait() -> None:
    assert _lanes(waiting_bytes=15).offer(None, _frame(1, size=100)) is None


def test_a_fork_finds_the_latest_of_any_lane() -> None:
    lanes = _lanes()
    lanes.offer("source", _frame(1))
    ((source, _),) = _taken(lanes)
    source.settled(Kept("resp_1", EMPTY, ASKED))
    source.ended()
    lanes.offer("fork", _frame(2))
    ((fork, _),) = _taken(lanes)

    assert fork.find("resp_1") is source.latest
    fork.refused(invalid_request("no"), "resp_1")
    assert source.latest is not None
    source.refused(invalid_request("no"), "resp_1")
    assert fork.find("resp_1") is None


def test_once_retired_nothing_begins_and_everything_is_answered_in_its_lane() -> None:
    lanes = _lanes()
    running, waiting, late = _frame(1), Frame({"a": b"1"}, parent="resp_1", size=1), _frame(3)
    lanes.offer("x", running)
    ((lane, _),) = _taken(lanes)
    lanes.offer("x", waiting)
    error = connection_limit(60)
    lanes.retire(error)
    lanes.offer(None, late)

    ((default, refused),) = _taken(lanes)
    assert (default.name, refused.refusal) == (None, error)
    lane.ended()
    ((same, refused),) = _taken(lanes)
    assert same is lane
    assert refused.refusal is error
    assert refused.parent is None
    default.ended()
    same.ended()
    assert lanes.idle


class Machine(RuleBasedStateMachine):
    """Frames come, run and end in any order; beside them a plain model of what each lane must do."""

    def __init__(self) -> None:
        super().__init__()
        self.lanes = Lanes(waiting=30, waiting_bytes=_PLENTY, in_flight=4, names=6)
        self.waiting: dict[str | None, deque[int]] = {}
        self.running: dict[str | None, tuple[Lane, int]] = {}
        self.latest: dict[str | None, str] = {}
        self.names: set[str] = set()
        self.count = 0

    @rule(name=st.sampled_from([None, *"abcdefgh"]))
    def a_frame_comes(self, name: str | None) -> None:
        self.count += 1
        error = self.lanes.offer(name, _frame(self.count))
        if name is not None and name not in self.names and len(self.names) == 6:
            assert error is not None
            assert error.code == "websocket_stream_limit_reached"
        elif sum(map(len, self.waiting.values())) == 30:
            assert error is not None
            assert error.code == "too_many_requests"
        else:
            assert error is None
            self.names |= {name} if name is not None else set()
            self.waiting.setdefault(name, deque()).append(self.count)

    @rule()
    def all_that_may_run_starts(self) -> None:
        for lane, frame in _taken(self.lanes):
            assert lane.name not in self.running, "never two of one lane"
            oldest = min(queue[0] for name, queue in self.waiting.items() if queue and name not in self.running)
            label = self.waiting[lane.name].popleft()
            assert frame.members["input"] == repr(label).encode(), "in the order of arrival"
            assert label == oldest, "none is passed by"
            self.running[lane.name] = lane, label
        assert len(self.running) == 4 or not any(q for name, q in self.waiting.items() if name not in self.running)

    @precondition(lambda self: self.running)
    @rule(data=st.data(), outcome=st.sampled_from(["kept", "nothing", "refused", "failed"]))
    def one_ends(self, data: st.DataObject, outcome: str) -> None:
        name = data.draw(st.sampled_from(sorted(self.running, key=str)))
        lane, label = self.running.pop(name)
        parent = data.draw(st.sampled_from([None, *sorted(self.latest.values())]))
        if outcome == "kept":
            lane.settled(Kept(f"resp_{label}", EMPTY, ASKED))
            self.latest[name] = f"resp_{label}"
        elif outcome == "nothing":
            lane.settled(None)
        else:
            if outcome == "refused":
                lane.refused(invalid_request("no"), parent)
            else:
                lane.failed(parent)
            if parent is not None and self.latest.get(name) == parent:
                del self.latest[name]
        lane.ended()

    @invariant()
    def never_more_than_the_limit_run(self) -> None:
        assert len(self.running) <= 4

    @invariant()
    def every_lane_finds_the_latest_of_all_and_nothing_else(self) -> None:
        for lane, _ in self.running.values():
            for number in range(1, self.count + 1):
                assert (lane.find(f"resp_{number}") is not None) == (f"resp_{number}" in self.latest.values())

    def teardown(self) -> None:
        while any(self.waiting.values()) or self.running:
            self.all_that_may_run_starts()
            for lane, _ in self.running.values():
                lane.ended()
            self.running.clear()
        assert self.lanes.idle, "all have run"


Machine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestLanes = Machine.TestCase
