from __future__ import annotations

import json
from typing import Any

import pytest

from upstream.scripted.answers import events_of, message, reasoning, response_object
from upstream.scripted.condense import condensed
from upstream.scripted.steps import Close, Step, Text

REQUEST = {"model": b'"m"', "store": b"false", "previous_response_id": b'"resp_0"'}
Json = dict[str, Any]


def _response(**members: Any) -> Json:
    request = {name: json.loads(raw) for name, raw in REQUEST.items()}
    return response_object([reasoning("sealed"), message("hi")], response_id="resp_1", request=request) | members


def _steps(response: Json) -> list[Step]:
    return [Text(json.dumps(event, separators=(",", ":")).encode()) for event in events_of(response)]


def _said(steps: list[Step]) -> list[Json]:
    return [json.loads(step.data) for step in condensed(steps, REQUEST) if isinstance(step, Text)]


def test_what_the_client_knows_is_not_said() -> None:
    said = _said(_steps(_response(text={"verbosity": "medium", "format": {"type": "text"}})))

    assert said[0] == {
        "type": "response.resumed",
        "sequence_number": 0,
        "response": {"id": "resp_1", "created_at": 1_760_000_000, "status": "in_progress"},
    }
    assert (said[1]["type"], said[1]["sequence_number"]) == ("response.output_item.added", 2)
    assert said[-1]["type"] == "response.done"
    assert said[-1]["response"].keys() == {"id", "created_at", "status", "completed_at", "usage"}


def test_what_is_otherwise_than_by_the_rule_is_said() -> None:
    begun, *between, ended = _steps(_response(service_tier="flex", top_p=0.9))
    said = _said([begun, *between, ended])
    assert {"service_tier": "flex", "top_p": 0.9}.items() <= said[0]["response"].items()
    assert "top_p" not in said[-1]["response"]


def test_an_output_that_is_not_what_the_events_told_is_said() -> None:
    *steps, last = _steps(_response())
    assert isinstance(last, Text)
    event = json.loads(last.data)
    event["response"]["output"] = []
    assert _said([*steps, Text(json.dumps(event).encode())])[-1]["response"]["output"] == []


def test_steps_that_are_no_events_stay_in_their_places() -> None:
    steps = _steps(_response())
    steps[1:1] = [Close(1000)]
    said = condensed(steps, REQUEST)
    assert len(said) == len(steps)
    assert said[1:3] == [Close(1000), None]


@pytest.mark.parametrize("broken_off", [1, 3])
def test_an_answer_that_breaks_off_is_said_as_far_as_it_goes(broken_off: int) -> None:
    steps = _steps(_response())[:broken_off]
    said = _said(steps)
    assert [event["type"] for event in said] == (
        ["response.created"] if broken_off == 1 else ["response.resumed", "response.output_item.added"]
    )


@pytest.mark.parametrize(
    "steps",
    [
        [],
        _steps(_response())[1:],
        _steps(_response(padding="x")),
        _steps({name: value for name, value in _response().items() if name != "user"}),
        [Text(b'{"type":"error","error":{}}')],
        [Text(b"{not json"), *_steps(_response())],
    ],
    ids=range(6),
)
def test_what_could_not_be_rebuilt_stays_as_it_is(steps: list[Step]) -> None:
    assert condensed(steps, REQUEST) == steps


def test_the_answer_to_a_request_that_no_server_takes_stays_as_it_is() -> None:
    steps = _steps(_response())
    assert condensed(steps, REQUEST | {"temperature": b'"hot"'}) == steps


def test_an_end_that_says_something_else_stays_as_it_is() -> None:
    *steps, last = _steps(_response())
    assert isinstance(last, Text)
    event = json.loads(last.data)
    for changed in (event | {"type": "response.failed"}, event | {"response": event["response"] | {"padding": 1}}):
        end = Text(json.dumps(changed).encode())
        assert condensed([*steps, end], REQUEST)[-1] == end
