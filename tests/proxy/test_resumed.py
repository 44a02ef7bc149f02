"""A resumed answer, rebuilt: what a client sees of it is what the server would have sent for the whole request."""

from __future__ import annotations

import json
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.answer import Answer, OutOfOrder, Phase, Step
from proxy.resumed import ResumedAnswer
from tests.upstream.helpers import SEALER, WEATHER, members
from upstream.engine import Delta, End, Part, Start, Stop, Summary
from upstream.stages.resolve import Offer, offer_for
from upstream.turns import answer as direct
from upstream.turns.asked import asked
from upstream.turns.request import read_request
from upstream.turns.resumed import ResumedAnswer as Told
from wire.errors import server_error

Json = dict[str, Any]
REQUEST = {"model": b'"m"', "instructions": rb'"be \u00e9"', "tools": b'[{"type":"function","name":"f"}]'}


def frame(kind: str, **members: Any) -> bytes:
    return json.dumps({"type": kind} | members).encode()


def resumed(number: int = 0, **told: Any) -> bytes:
    response = {"id": "resp_1", "created_at": 7, "status": "in_progress"} | told
    return frame("response.resumed", sequence_number=number, response=response)


def done(**told: Any) -> bytes:
    return frame("response.done", sequence_number=3, response={"id": "resp_1", "status": "completed"} | told)


ITEM = frame("response.output_item.done", sequence_number=2, output_index=0, item={"type": "message", "id": "msg_1"})


def taken(*frames: bytes, answer: Answer | None = None) -> list[Step]:
    answer = answer or ResumedAnswer(REQUEST)
    steps = [answer.take(one) for one in frames]
    return [one for step in steps for one in (step.before, step) if one is not None]


def values(steps: list[Step]) -> list[Json]:
    events: list[Json] = [json.loads(step.frame) for step in steps]
    assert [event["type"] for event in events] == [step.type for step in steps]
    return events


def test_one_event_becomes_the_two_that_begin_an_answer() -> None:
    answer = ResumedAnswer(REQUEST)
    created, in_progress = values(taken(resumed(), answer=answer))

    assert (created["type"], created["sequence_number"]) == ("response.created", 0)
    assert (in_progress["type"], in_progress["sequence_number"]) == ("response.in_progress", 1)
    assert created["response"] == in_progress["response"]
    assert created["response"]["instructions"] == "be é"
    assert created["response"]["tools"][0]["strict"] is True
    assert (answer.phase, answer.response_id, answer.next_sequence) == (Phase.STARTED, "resp_1", 2)


def test_the_events_of_items_pass_with_their_bytes() -> None:
    assert taken(resumed(), ITEM)[-1].frame is ITEM


@pytest.mark.parametrize("status", ["completed", "incomplete", "failed"])
def test_the_end_is_the_one_that_its_status_says_with_all_items(status: str) -> None:
    answer = ResumedAnswer(REQUEST)
    event = values(taken(resumed(), ITEM, done(status=status, usage={"input_tokens": 3}), answer=answer))[-1]

    assert (event["type"], event["sequence_number"]) == (f"response.{status}", 3)
    assert event["response"]["status"] == status
    assert event["response"]["output"] == [{"type": "message", "id": "msg_1"}]
    assert json.loads(answer.response()) == event["response"]
    assert (answer.phase, answer.terminal) == (Phase.ENDED, event["type"])
    assert (answer.completed, answer.usage()[0]) == (status == "completed", 3)
    assert answer.forms(streamed=True) == [(b'{"type": "message", "id": "msg_1"}',)]


def test_what_the_server_says_counts_more_than_the_rule_and_the_later_more_than_the_earlier() -> None:
    told = values(taken(resumed(service_tier="auto", top_p=0.5), ITEM, done(service_tier="flex", output=[])))
    begun, ended = told[0]["response"], told[-1]["response"]

    assert (begun["service_tier"], begun["top_p"]) == ("auto", 0.5)
    assert (ended["service_tier"], ended["top_p"], ended["output"]) == ("flex", 0.5, [])


def test_the_client_reads_the_previous_response_that_it_named_itself() -> None:
    told = values(taken(resumed(previous_response_id="resp_0"), done()))
    assert {event["response"]["previous_response_id"] for event in told} == {None}


def test_an_answer_in_ordinary_events_is_taken_as_such() -> None:
    response = {"id": "resp_1", "status": "in_progress"}
    frames = [frame("response.created", response=response), ITEM, frame("response.completed", response=response)]
    assert [step.type for step in taken(*frames)][::2] == ["response.created", "response.completed"]


def test_an_error_is_one_before_and_after_the_beginning() -> None:
    for frames in ([], [resumed()]):
        answer = ResumedAnswer(REQUEST)
        taken(*frames, answer=answer)
        assert answer.take(server_error("boom").ws_frame()).error is not None
        assert (answer.refused is not None) == (not frames)


def test_an_answer_that_breaks_off_fails_with_the_whole_object() -> None:
    answer = ResumedAnswer(REQUEST)
    taken(resumed(), ITEM, answer=answer)
    failed = json.loads(answer.failed_event("gone") or b"")
    assert (failed["response"]["instructions"], failed["sequence_number"]) == ("be é", 3)


@pytest.mark.parametrize(
    "frames",
    [
        [done()],
        [resumed(), resumed()],
        [resumed(), frame("response.created", response={"id": "resp_1"})],
        [resumed(), done(id="resp_2")],
        [resumed(), done(status="queued")],
        [resumed(), frame("response.done")],
        [frame("response.resumed", response=3)],
        [resumed(), done(), ITEM],
    ],
    ids=range(8),
)
def test_what_does_not_fit_ends_the_link(frames: list[bytes]) -> None:
    with pytest.raises(OutOfOrder):
        taken(*frames)


@pytest.mark.parametrize("one", [resumed(), done()])
def test_a_turn_that_was_not_resumed_has_no_such_events(one: bytes) -> None:
    with pytest.raises(OutOfOrder):
        taken(one, answer=Answer())


# Against the server itself

_SCHEMA = {"type": "object", "properties": {"é": {"type": "number", "minimum": 1.0}}}
_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "client_metadata": st.just({"a": 1}),
    "include": st.just(["reasoning.encrypted_content"]),
    "instructions": st.text(),
    "max_output_tokens": st.integers(1, 9),
    "max_tool_calls": st.integers(0, 9),
    "metadata": st.dictionaries(st.text(max_size=4), st.text(max_size=4), max_size=3),
    "parallel_tool_calls": st.booleans(),
    "prompt_cache_key": st.text(),
    "prompt_cache_retention": st.just("24h"),
    "reasoning": st.sampled_from([{"effort": "low"}, {"summary": "auto", "more": [1.0, 1]}, {}]),
    "safety_identifier": st.text(),
    "service_tier": st.sampled_from(["auto", "flex"]),
    "store": st.booleans(),
    "temperature": st.one_of(st.integers(0, 2), st.floats(0, 2)),
    "text": st.sampled_from(
        [{}, {"verbosity": "low"}, {"format": {"type": "json_schema", "name": "n", "schema": _SCHEMA, "strict": None}}]
    ),
    "tool_choice": st.sampled_from(["none", "auto", {"type": "function", "name": "get_weather"}]),
    "tools": st.lists(st.sampled_from([WEATHER, {"type": "custom", "name": "é"}, {"type": "web_search"}]), max_size=3),
    "top_logprobs": st.integers(0, 20),
    "top_p": st.floats(0, 1),
    "truncation": st.sampled_from(["auto", "disabled"]),
    "unknown": st.just([None]),
    "user": st.text(),
}
_REQUESTS = st.fixed_dictionaries(
    {"model": st.text(min_size=1)}, optional={name: st.none() | value for name, value in _VALUES.items()}
)
_ITEMS: st.SearchStrategy[tuple[Part, ...]] = st.one_of(
    st.text().map(lambda text: (Start("message"), Delta(text), End())),
    st.text().map(lambda text: (Start("function_call", "f"), Delta(text), End())),
    st.text().map(lambda text: (Start("reasoning"), Delta("why"), Summary((text,)), End())),
)
_STOPS = st.sampled_from([Stop(), Stop("max_output_tokens"), None])


def _events(kind: type[direct.Answer], request: dict[str, bytes], parts: list[Part], stop: Stop | None) -> list[bytes]:
    """What a server sends, ids and seals being the same each time."""
    read = read_request(request)
    counted = (f"{number:050}" for number in range(1000))
    with (
        patch("secrets.token_hex", lambda _: next(counted)),
        patch("os.urandom", bytes),
    ):
        answer = kind(
            read,
            shown=asked(read, offer_for(read.tools, Offer())).shown,
            input_tokens=10,
            cached_tokens=2,
            created_at=7,
            sealer=SEALER,
        )
        events = [*answer.begin(), *(event for part in parts for event in answer.add(part))]
        events.append(answer.fail() if stop is None else answer.finish(stop, 8))
    return [event.data for event in events]


@given(request=_REQUESTS, items=st.lists(_ITEMS, max_size=3), stop=_STOPS)
def test_a_rebuilt_answer_is_the_direct_one_byte_for_byte(
    request: Json, items: list[tuple[Part, ...]], stop: Stop | None
) -> None:
    raw = members(**request)
    parts = [part for item in items for part in item]
    expected, rebuilt = Answer(), ResumedAnswer(raw)
    whole = taken(*_events(direct.Answer, raw, parts, stop), answer=expected)
    told = taken(*_events(Told, raw, parts, stop), answer=rebuilt)

    assert [(step.type, step.frame) for step in told] == [(step.type, step.frame) for step in whole]
    assert rebuilt.response() == expected.response()
    assert (rebuilt.terminal, rebuilt.response_id) == (expected.terminal, expected.response_id)
    assert rebuilt.usage() == expected.usage()
    assert [event["sequence_number"] for event in values(told)] == list(range(len(told)))
    for streamed in (True, False):
        assert rebuilt.forms(streamed=streamed) == expected.forms(streamed=streamed)
