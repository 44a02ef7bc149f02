from __future__ import annotations

import json
from typing import Any

from tests.upstream.helpers import SEALER, members
from upstream.engine import Delta, End, Start, Stop
from upstream.turns.answer import Answer
from upstream.turns.request import read_request
from upstream.turns.resumed import ResumedAnswer
from wire.response import shown_for

_PARTS = (Start("message"), Delta("Hel"), Delta("lo"), End())


def _answer(kind: type[Answer] = ResumedAnswer, **request: Any) -> Answer:
    given = members(model="m", instructions="be", **request)
    return kind(
        read_request(given),
        shown=shown_for(given),
        input_tokens=10,
        cached_tokens=2,
        created_at=7,
        sealer=SEALER,
    )


def _play(answer: Answer, stop: Stop | None = None) -> list[dict[str, Any]]:
    events = [*answer.begin(), *(event for part in _PARTS for event in answer.add(part))]
    events.append(answer.finish(stop or Stop(), 9))
    assert all(json.loads(event.data)["type"] == event.type for event in events)
    return [json.loads(event.data) for event in events]


def test_it_begins_and_ends_in_few_words() -> None:
    answer = _answer(store=False)
    events = _play(answer)

    assert events[0] == {
        "type": "response.resumed",
        "sequence_number": 0,
        "response": {"id": answer.id, "created_at": 7, "status": "in_progress"},
    }
    assert events[-1]["type"] == "response.done"
    assert events[-1]["response"] == {
        "id": answer.id,
        "status": "completed",
        "completed_at": 9,
        "error": None,
        "incomplete_details": None,
        "usage": {
            "input_tokens": 10,
            "input_tokens_details": {"cached_tokens": 2, "cache_write_tokens": 0},
            "output_tokens": 2,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 12,
        },
    }


def test_all_events_between_are_those_of_any_answer_with_the_same_numbers() -> None:
    resumed, ordinary = _play(_answer()), _play(_answer(Answer))

    assert [(event["type"], event["sequence_number"]) for event in resumed[1:-1]] == [
        (event["type"], event["sequence_number"]) for event in ordinary[2:-1]
    ]
    assert resumed[-1]["sequence_number"] == ordinary[-1]["sequence_number"]


def test_a_stored_one_has_the_whole_object_all_the_same() -> None:
    stored, ordinary = _answer(store=True), _answer(Answer, store=True)
    stored.id = ordinary.id = "resp_1"
    _play(stored)
    _play(ordinary)

    whole, expected = json.loads(stored.response), json.loads(ordinary.response)
    assert whole.keys() == expected.keys()
    assert {name for name in whole if whole[name] != expected[name]} == {"id", "output"}, "ids are never the same"
    assert _answer(store=False).response == b""


def test_an_end_that_is_none_says_why() -> None:
    cut, failed = _play(_answer(), Stop("max_output_tokens"))[-1]["response"], _answer()
    failed.begin()

    assert (cut["status"], cut["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})
    assert cut["completed_at"] is None
    told = json.loads(failed.fail().data)
    assert (told["type"], told["response"]["status"]) == ("response.done", "failed")
    assert told["response"]["error"]["code"] == "server_error"
