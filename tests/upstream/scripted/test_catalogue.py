import json
from typing import Any, Literal

import pytest

from tests.support.responses import user
from upstream.scripted.answers import answer, message, reasoning
from upstream.scripted.catalogue import BIG, SPOKEN, TURNS, Late
from upstream.scripted.steps import Binary, Pause, Step, Text
from upstream.scripted.turn import Turn

EVENTS = answer([reasoning("e1"), message("hello")], response_id="resp_1", request={})


def turn(transport: Literal["http", "ws"] = "ws", parent: str = "resp_0") -> Turn:
    made = Turn(1, transport, 1, b"")
    made.members = {"input": json.dumps([user("a")]).encode(), "previous_response_id": json.dumps(parent).encode()}
    return made


def steps(name: str, at: Turn) -> list[Step]:
    fault = TURNS[name].make(at, 7.0)
    assert fault is not None
    return fault.apply([Text(json.dumps(event).encode()) for event in EVENTS])


@pytest.mark.parametrize("name", sorted(TURNS))
def test_every_fault_changes_an_answer_over_a_link(name: str) -> None:
    assert steps(name, turn()) != [Text(json.dumps(event).encode()) for event in EVENTS]


@pytest.mark.parametrize("name", sorted(TURNS))
def test_over_plain_http_there_are_no_faults_of_websockets(name: str) -> None:
    fault = TURNS[name].make(turn("http"), 7.0)
    assert fault is None or not any(isinstance(step, Binary) for step in fault.apply([Text(b"{}")] * 9))


def test_nothing_is_forgotten_that_was_not_named() -> None:
    for name in ("forgotten", "forgotten-plainly"):
        assert TURNS[name].make(turn(parent=""), 7.0) is None
        (refused,) = steps(name, turn())
        assert isinstance(refused, Text)
        assert json.loads(refused.data)["type"] == "error"


def test_a_pause_stands_where_it_is_told_to_and_the_answer_is_whole() -> None:
    assert steps("late", turn())[0] == Pause(7.0)
    pausing = steps("pausing", turn())
    assert pausing[SPOKEN] == Pause(7.0)
    assert len(pausing) == len(EVENTS) + 1
    assert Late(7.0).apply([]) == [Pause(7.0)]


def test_a_big_answer_is_as_big_as_the_page_says() -> None:
    last: Any = steps("big", turn())[-1]
    assert BIG < len(last.data) < BIG + 10_000


def test_every_entry_says_what_it_is_in_a_cell_of_a_table() -> None:
    for entry in TURNS.values():
        for text in entry[:3]:
            assert text
            assert "|" not in text
            assert "\n" not in text
