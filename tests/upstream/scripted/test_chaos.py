import json
from collections import Counter
from typing import Any

import pytest

from tests.support.responses import tool_output, user
from upstream.scripted.catalogue import TURNS
from upstream.scripted.chaos import Chaos, listing, ordinary
from upstream.scripted.context import Cache, Contexts
from upstream.scripted.faults import RefuseUpgrade
from upstream.scripted.handshakes import HANDSHAKES
from upstream.scripted.script import Accept
from upstream.scripted.turn import Turn

TOOL = {"type": "function", "name": "run", "parameters": {}}


def turn(number: int = 1, **body: Any) -> Turn:
    made = Turn(number, "http", 0, json.dumps({"input": [user("a")], **body}).encode())
    Contexts().open(made, Cache())
    return made


def test_a_part_of_the_turns_shows_faults_as_told_and_the_same_again_for_the_same_seed() -> None:
    turns = [turn(number) for number in range(2000)]
    first, again, other = (
        [Chaos({"failed": 0.2, "spaced": 0.1}, seed=seed).fault(one) for one in turns] for seed in (1, 1, 2)
    )
    assert first == again != other
    counts = Counter(first)
    assert counts.keys() == {"", "failed", "spaced"}
    assert 330 < counts["failed"] < 470
    assert 140 < counts["spaced"] < 260


def test_all_is_every_fault_of_turns_but_those_that_have_a_rate_of_their_own() -> None:
    chaos = Chaos({"all": 1.0, "silent": 0.0})
    shown = {
        chaos.fault(Turn(number, "ws", 1, b"", members={"previous_response_id": b'"r"'})) for number in range(2000)
    }
    assert shown == TURNS.keys() - {"silent"} | {""}


def test_a_turn_that_cannot_show_its_fault_is_answered_as_ever() -> None:
    chaos = Chaos({"forgotten": 1.0})
    assert chaos.fault(turn()) == ""
    assert chaos.play(turn()).faults == []
    assert len(chaos.play(turn(previous_response_id=None)).items) == 1


def test_a_fault_is_part_of_the_play() -> None:
    (fault,) = Chaos({"failed": 1.0}).play(turn()).faults
    assert fault == TURNS["failed"].make(turn(), 0.0)


def test_handshakes_have_rates_of_their_own_and_say_which_fault_they_show() -> None:
    chaos = Chaos({"upgrade-503": 0.5, "all": 0.5})
    answers = []
    for _ in range(200):
        answer = chaos.upgrade({})
        answers.append(answer)
        assert answer == (HANDSHAKES[chaos.dialled].answer if chaos.dialled else Accept())
    assert 60 < sum(isinstance(answer, RefuseUpgrade) for answer in answers) < 140


@pytest.mark.parametrize(
    ("rates", "said"),
    [
        ({"fire": 0.1}, "there is no fault 'fire'"),
        ({"failed": 0.7, "spaced": 0.4}, "rates are parts of everything"),
        ({"failed": -0.1}, "rates are parts of everything"),
        ({"upgrade-503": 0.7, "upgrade-404": 0.7}, "rates are parts of everything"),
    ],
)
def test_a_name_that_is_none_and_rates_of_more_than_everything_are_refused(rates: dict[str, float], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Chaos(rates)


def test_an_agent_is_led_through_calls_of_the_first_function_on_offer_to_a_message() -> None:
    history: list[Any] = [user("a")]
    kinds = []
    for number in range(1, 4):
        (item,) = ordinary(turn(number, input=history, tools=[{"type": "web_search"}, TOOL]))
        kinds.append(item["type"])
        if item["type"] == "function_call":
            assert item["name"] == "run"
            history += [item, tool_output(item["call_id"])]
    assert kinds == ["function_call", "function_call", "message"]
    again = ordinary(turn(9, input=[*history, user("b")], tools=[TOOL]))
    assert again[0]["type"] == "function_call"


def test_reasoning_is_told_sealed_where_it_is_asked_for() -> None:
    assert [item["type"] for item in ordinary(turn(include=["reasoning.encrypted_content"]))] == [
        "reasoning",
        "message",
    ]
    assert [item["type"] for item in ordinary(turn(include=None))] == ["message"]


@pytest.mark.parametrize(
    "odd",
    [
        {"tools": 5},
        {"tools": [5, {"type": "function"}, {"type": "function", "name": 5}]},
        {"include": 5},
        {"include": "x"},
        {"input": [5], "tools": [TOOL]},
        {"input": [{"role": [], "type": {}}], "tools": [TOOL]},
    ],
)
def test_whatever_stands_in_a_request_it_is_answered(odd: dict[str, Any]) -> None:
    assert ordinary(turn(**odd))


def test_every_fault_is_listed_with_what_it_does() -> None:
    assert [line.split()[0] for line in listing()] == [*TURNS, *HANDSHAKES]
    assert all(len(line.split()) > 3 for line in listing())
