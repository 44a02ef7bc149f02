"""One turn's answer: its phases, what is shown of each event, and what remains for the head."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.answer import Answer, OutOfOrder, Phase, Step
from wire.errors import previous_not_found
from wire.events import HANDSHAKE, PIECES, TERMINAL

Json = dict[str, Any]


def frame(kind: str, **members: Any) -> bytes:
    return json.dumps({"type": kind} | members).encode()


def response(**members: Any) -> Json:
    return {"id": "resp_1", "object": "response", "status": "in_progress", "output": []} | members


def item(name: str, **members: Any) -> Json:
    return {"type": "message", "id": name, "role": "assistant", "content": []} | members


def done(value: Json, index: int | None = None) -> bytes:
    place = {} if index is None else {"output_index": index}
    return frame("response.output_item.done", item=value, **place)


def completed(**members: Any) -> bytes:
    return frame("response.completed", response=response(status="completed", **members))


def raw(value: Json) -> bytes:
    return json.dumps(value).encode()


CREATED = frame("response.created", sequence_number=0, response=response())
IN_PROGRESS = frame("response.in_progress", sequence_number=1, response=response())
DELTA = frame("response.output_text.delta", sequence_number=2, delta="x")


def taken(*frames: bytes, shown_previous: bytes = b"null") -> Answer:
    answer = Answer(shown_previous)
    for one in frames:
        answer.take(one)
    return answer


@pytest.mark.parametrize(
    ("frames", "phase", "terminal"),
    [
        ([], Phase.SILENT, ""),
        ([CREATED], Phase.STARTED, ""),
        ([CREATED, IN_PROGRESS], Phase.STARTED, ""),
        ([frame("response.queued", response=response())], Phase.STARTED, ""),
        ([CREATED, DELTA], Phase.SPEAKING, ""),
        ([CREATED, DELTA, IN_PROGRESS], Phase.SPEAKING, ""),
        ([CREATED, DELTA, completed()], Phase.ENDED, "response.completed"),
        ([CREATED, frame("response.failed", response=response())], Phase.ENDED, "response.failed"),
        ([CREATED, frame("response.incomplete", response=response())], Phase.ENDED, "response.incomplete"),
        ([completed()], Phase.ENDED, "response.completed"),
        ([frame("error", error={"message": "m"})], Phase.ENDED, "error"),
        ([CREATED, DELTA, frame("error", error={"message": "m"})], Phase.ENDED, "error"),
        ([frame("codex.rate_limits", limits={})], Phase.SILENT, ""),
        ([CREATED, frame("keepalive")], Phase.STARTED, ""),
    ],
)
def test_events_move_the_phase_forward(frames: list[bytes], phase: Phase, terminal: str) -> None:
    answer = taken(*frames)
    assert (answer.phase, answer.terminal, answer.events) == (phase, terminal, len(frames))
    assert answer.completed == (terminal == "response.completed")


@pytest.mark.parametrize(
    ("before", "last"),
    [
        ([], b""),
        ([], b"null"),
        ([], b"[]"),
        ([], b'"response.created"'),
        ([], b"{}"),
        ([], b'{"type":1}'),
        ([], b'{"type":"response.created"'),
        ([], b'{"type":"response.created"}{'),
        ([], b'\x00\xff{"type":"x"}'),
        ([], b'{"type":"x","delta":"\xff"}'),
        ([], b'{"type":"x","delta":"\\ud800"}'),
        ([], b'{"type":"response.a\\ndata: y"}'),
        ([], b'{"type":"x","a":' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
        ([], frame("x", stream_id="lane_1")),
        ([], frame("error", stream_id="lane_1")),
        ([], frame("response.completed")),
        ([], frame("response.completed", response=None)),
        ([], frame("response.failed", response="gone")),
        ([], frame("response.created", response={"id": 5})),
        ([], frame("response.created", response=[])),
        ([], b'{"type":"response.created","response":{"id":"a","output":[],"output":[1]}}'),
        ([], b'{"type":"response.created","response":{"id":"a"},"response":{"id":"b"}}'),
        ([CREATED], CREATED),
        ([CREATED], frame("response.created")),
        ([IN_PROGRESS], CREATED),
        ([CREATED], frame("response.in_progress", response=response(id="resp_2"))),
        ([CREATED], frame("response.completed", response=response(id="resp_2"))),
        ([completed()], DELTA),
        ([completed()], completed()),
        ([frame("error")], frame("error")),
    ],
)
def test_what_does_not_fit_is_out_of_order(before: list[bytes], last: bytes) -> None:
    answer = taken(*before)
    with pytest.raises(OutOfOrder):
        answer.take(last)


def test_an_event_without_a_response_passes_byte_for_byte() -> None:
    given_frame = b'{ "type" : "response.output_text.delta",\t"delta":"\xc3\xa9", "new":1e400 }'
    assert Answer().take(given_frame) == Step("response.output_text.delta", given_frame)


def test_the_previous_response_is_shown_as_the_client_sent_it() -> None:
    full = frame("response.created", response=response(previous_response_id="resp_0"))
    shown = Answer().take(full).frame
    assert json.loads(shown) == json.loads(full) | {"response": response(previous_response_id=None)}
    assert taken(full).take(completed(previous_response_id="resp_0")).frame.count(b"resp_0") == 0


def test_nothing_is_rewritten_where_the_previous_response_is_right_already() -> None:
    for given_frame in (CREATED, frame("response.created", response=response(previous_response_id=None))):
        assert Answer().take(given_frame).frame is given_frame


def test_a_handshake_without_a_response_object_is_passed_on() -> None:
    given_frame = frame("response.created", response=None)
    answer = Answer()
    assert answer.take(given_frame).frame is given_frame
    assert answer.phase is Phase.STARTED
    assert answer.failed_event("m") is None


def test_an_id_may_come_late_and_is_kept() -> None:
    answer = taken(frame("response.created", response={"output": []}), frame("response.in_progress", response={}))
    assert answer.response_id == ""
    answer.take(completed())
    assert answer.response_id == "resp_1"


def test_a_completed_response_without_an_id_has_that_of_its_beginning() -> None:
    answer = taken(CREATED, b'{"type":"response.completed","response":{"status":"completed","output":[]}}')
    assert (answer.response_id, answer.completed) == ("resp_1", True)


def test_an_error_frame_is_read() -> None:
    step = Answer().take(previous_not_found("resp_0").ws_frame())
    assert step.error is not None
    assert (step.error.status, step.error.code) == (400, "previous_response_not_found")


def test_an_error_that_cannot_be_read_is_out_of_order() -> None:
    with pytest.raises(OutOfOrder):
        Answer().take(b'{"type":"error","error":{"resets_in_seconds":1e999}}')


@pytest.mark.parametrize(
    ("numbers", "following"),
    [([], 0), ([0], 1), ([0, 1, 7], 8), ([3, None], 4), ([3, -1], 4), ([3, 2**53], 4), ([2**53 - 1], 2**53)],
)
def test_the_next_sequence_number_follows_the_last_sensible_one(numbers: list[int | None], following: int) -> None:
    members = ({} if number is None else {"sequence_number": number} for number in numbers)
    assert taken(*(frame("response.x", **member) for member in members)).next_sequence == following


# The response object


def test_the_terminal_response_is_returned_as_it_came() -> None:
    text = b'{"id":"resp_1", "temperature":1.00,"output":[{"id":"a"}],"status":"completed"}'
    answer = taken(CREATED, done({"id": "a"}, 0), b'{"type":"response.completed","response":' + text + b"}")
    assert answer.response() == text


@pytest.mark.parametrize("output", [[], None, "absent", [item("a")]])
def test_an_output_shorter_than_the_items_is_put_together_from_them_in_their_order(output: Any) -> None:
    ended = completed(output=output) if output != "absent" else frame("response.completed", response={"id": "resp_1"})
    answer = taken(CREATED, done(item("b"), 1), done(item("a"), 0), ended)
    assert json.loads(answer.response())["output"] == [item("a"), item("b")]
    assert [json.loads(forms[0]) for forms in answer.forms(streamed=False)] == [item("a"), item("b")]


def test_items_without_an_index_keep_the_order_of_their_events() -> None:
    answer = taken(CREATED, done(item("a"), 1), done(item("b")), done(item("c")), completed())
    assert [entry["id"] for entry in json.loads(answer.response())["output"]] == ["a", "b", "c"]


def test_only_items_that_are_done_count() -> None:
    added = frame("response.output_item.added", item=item("a"), output_index=0)
    without = frame("response.output_item.done", output_index=1)
    answer = taken(CREATED, added, without, completed())
    assert json.loads(answer.response())["output"] == []
    assert answer.forms(streamed=True) == []


def test_an_output_longer_than_the_items_stands() -> None:
    answer = taken(CREATED, done(item("a"), 0), completed(output=[item("a"), item("b")]))
    assert json.loads(answer.response())["output"] == [item("a"), item("b")]
    assert list(answer.forms(streamed=True)) == [(raw(item("a")),), (raw(item("b")),)]


# The forms of the answered items


def test_an_item_sent_in_two_forms_has_first_the_one_that_the_client_saw() -> None:
    early, late = (
        item("r", type="reasoning", encrypted_content="e1"),
        item("r", type="reasoning", encrypted_content="e2"),
    )
    answer = taken(CREATED, done(early, 0), completed(output=[late]))
    assert answer.forms(streamed=True) == [(raw(early), raw(late))]
    assert answer.forms(streamed=False) == [(raw(late), raw(early))]


def test_an_item_sent_twice_alike_has_one_form() -> None:
    assert taken(CREATED, done(item("a"), 0), completed(output=[item("a")])).forms(streamed=True) == [(raw(item("a")),)]


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (item("a"), item("f", type="function_call", call_id="c")),
        (item("f", type="function_call", call_id="c"), item("g", type="function_call", call_id="d")),
        (item("a", type=1), item("b", type=1)),
    ],
)
def test_two_orders_of_the_same_items_are_never_two_forms(one: Json, two: Json) -> None:
    answer = taken(CREATED, done(one), done(two), completed(output=[two, one]))
    assert answer.forms(streamed=True) == [(raw(one),), (raw(two),)]
    assert answer.forms(streamed=False) == [(raw(two),), (raw(one),)]


def test_without_a_response_object_the_items_are_what_there_is() -> None:
    assert taken(done(item("a"), 0)).forms(streamed=True) == [(raw(item("a")),)]
    assert Answer().forms(streamed=False) == []


# The end that the sidecar makes


def test_a_failed_event_tells_what_arrived_and_follows_in_number() -> None:
    answer = taken(CREATED, IN_PROGRESS, done(item("a"), 0))
    event = json.loads(answer.failed_event('lost "it"\n') or b"")
    assert (event["type"], event["sequence_number"]) == ("response.failed", 2)
    failed = event["response"]
    assert (failed["id"], failed["status"], failed["output"]) == ("resp_1", "failed", [item("a")])
    assert failed["error"] == {"code": "server_error", "message": 'lost "it"\n'}


def test_a_failed_event_does_not_show_the_previous_response_either() -> None:
    answer = taken(frame("response.created", response=response(previous_response_id="resp_0")))
    assert json.loads(answer.failed_event("m") or b"")["response"]["previous_response_id"] is None


def test_there_is_no_failed_event_without_a_response_object() -> None:
    assert Answer().failed_event("m") is None
    assert taken(DELTA).failed_event("m") is None


# Usage


@pytest.mark.parametrize(
    ("usage", "read"),
    [
        (None, (None, None, None)),
        ("many", (None, None, None)),
        ({}, (None, None, None)),
        ({"input_tokens": 5, "output_tokens": 0}, (5, 0, None)),
        ({"input_tokens": 5, "output_tokens": 6, "input_tokens_details": {"cached_tokens": 4}}, (5, 6, 4)),
        ({"input_tokens": True, "output_tokens": "6", "input_tokens_details": []}, (None, None, None)),
        ({"input_tokens": -1, "output_tokens": 2**53}, (None, None, None)),
        ({"input_tokens": 2**53 - 1}, (2**53 - 1, None, None)),
        ({"input_tokens": 1.5, "output_tokens": 1}, (None, 1, None)),
    ],
)
def test_usage_is_read_as_far_as_it_makes_sense(usage: Any, read: tuple[int | None, ...]) -> None:
    assert taken(completed(usage=usage)).usage() == read


def test_usage_that_cannot_be_read_is_not_known() -> None:
    ended = b'{"type":"response.completed","response":{"id":"resp_1","usage":{"input_tokens":1e999}}}'
    assert taken(ended).usage() == (None, None, None)
    assert Answer().usage() == (None, None, None)


# Any sequence at all

_SMALL = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
_IDS = st.sampled_from(["resp_1", "resp_1", "resp_1", "resp_2", ""])
_ITEMS = st.lists(st.sampled_from([item("a"), item("b"), item("f", type="function_call", call_id="c")]), max_size=3)
_RESPONSES = _SMALL | st.fixed_dictionaries(
    {},
    optional={
        "id": _IDS | _SMALL,
        "output": _ITEMS | _SMALL,
        "usage": st.fixed_dictionaries({}, optional={"input_tokens": _SMALL, "input_tokens_details": _SMALL}) | _SMALL,
        "previous_response_id": _IDS | _SMALL,
    },
)
_TYPES = st.sampled_from(
    [*sorted(HANDSHAKE), *sorted(TERMINAL), "response.output_item.done", "response.x", "ping", "\n"]
)
_EVENTS = st.fixed_dictionaries(
    {"type": _TYPES},
    optional={
        "response": _RESPONSES,
        "item": st.sampled_from([item("a"), item("b"), None, 5]),
        "output_index": st.integers(-(2**70), 2**70) | st.none(),
        "sequence_number": st.integers(-(2**70), 2**70),
        "error": _SMALL,
        "headers": _SMALL,
        "stream_id": st.none() | st.just("lane"),
    },
).map(lambda event: json.dumps(event).encode())


@given(frames=st.lists(_EVENTS | st.binary(max_size=20), max_size=8), streamed=st.booleans())
def test_any_sequence_of_frames_ends_in_a_phase_or_out_of_order(*, frames: list[bytes], streamed: bool) -> None:
    answer = Answer()
    last = answer.phase
    try:
        for one in frames:
            step = answer.take(one)
            assert answer.phase >= last
            last = answer.phase
            assert json.loads(step.frame)["type"] == step.type
    except OutOfOrder:
        assert answer.phase >= last
    assert (answer.phase is Phase.ENDED) == (answer.terminal in TERMINAL)
    if answer.terminal in TERMINAL - {"error"}:
        assert len(json.loads(answer.response()).get("output") or ()) >= 0
    assert all(answer.forms(streamed=streamed))
    answer.usage()
    event = answer.failed_event("m")
    assert event is None or json.loads(event)["sequence_number"] == answer.next_sequence


@pytest.mark.parametrize("kind", sorted(PIECES))
def test_a_piece_of_text_is_passed_on_as_it_is_and_is_held_to_the_order_all_the_same(kind: str) -> None:
    answer = taken(frame("response.created", response=response()), frame(kind, delta="a"))
    piece = frame(kind, delta="b", sequence_number=7)
    assert answer.take(piece) == Step(kind, piece)
    assert (answer.events, answer.next_sequence, answer.phase) == (3, 8, Phase.SPEAKING)
    for wrong in ({"stream_id": "x"}, {"response": response(id="resp_2")}):
        with pytest.raises(OutOfOrder):
            answer.take(frame(kind, delta="c", **wrong))
