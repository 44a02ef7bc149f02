import json
from typing import Any

import pytest

from bench.differences import frame_differences, http_differences
from bench.trace import HttpResponse, event_bytes, stream_bytes
from bench.wire_client import Answer
from upstream.scripted import answer, message

EVENTS = tuple(answer([message("hé")], response_id="resp_1", request={}))
STREAM = b"".join(stream_bytes(EVENTS))
SSE = {"content-type": "text/event-stream; charset=utf-8"}
FAILED = {"type": "response.failed", "response": {"id": "resp_1", "status": "failed"}, "sequence_number": 9}


def _found(recorded: HttpResponse, body: bytes, status: int = 200, *, complete: bool = True) -> list[str]:
    headers = SSE if recorded.events is not None else {"content-type": "application/json"}
    return [str(found) for found in http_differences(recorded, Answer(status, headers, body, complete))]


def _stream(*, cut: bool = False, events: tuple[dict[str, Any], ...] = EVENTS) -> HttpResponse:
    return HttpResponse(1, 200, events=events, cut=cut)


def test_the_same_stream_is_no_difference_with_or_without_comments() -> None:
    assert _found(_stream(), STREAM) == []
    assert _found(_stream(), b": keep-alive\n" + STREAM.replace(b"event: response.c", b": x\nevent: response.c")) == []


def test_a_changed_event_is_named_by_path() -> None:
    changed = STREAM.replace(b'"delta":"h"', b'"delta":"x"')
    assert _found(_stream(), changed) == ["turn 1 event[4].delta: differs"]


def test_the_same_json_in_other_bytes_is_a_difference() -> None:
    spaced = STREAM.replace(b'"type":"response.created"', b'"type": "response.created"')
    assert _found(_stream(), spaced) == ["turn 1 event[0] (bytes only): differs"]


def test_a_lost_an_added_and_a_broken_stream_are_differences() -> None:
    blocks = stream_bytes(EVENTS)
    assert _found(_stream(), b"".join(blocks[:-1])) == [f"turn 1 stream: {len(EVENTS)} events became {len(EVENTS) - 1}"]
    assert _found(_stream(), STREAM + b"data: [DONE]\n\n") == [
        f"turn 1 stream: {len(EVENTS)} events became {len(EVENTS) + 1}"
    ]
    assert _found(_stream(), STREAM, complete=False) == ["turn 1 stream: broke off"]


def test_a_stream_as_json_is_a_difference() -> None:
    got = Answer(200, {"content-type": "application/json"}, b"{}")
    assert [str(found) for found in http_differences(_stream(), got)] == ["turn 1 content-type: is no event stream"]


def test_a_cut_stream_may_break_or_be_failed_by_the_sidecar() -> None:
    cut = _stream(cut=True, events=EVENTS[:4])
    begun = b"".join(stream_bytes(EVENTS[:4]))
    failed = begun + stream_bytes([FAILED])[0]
    assert _found(cut, begun, complete=False) == []
    assert _found(cut, failed) == ["turn 1 stream: cut_said"]
    assert _found(cut, begun) == ["turn 1 stream: ended although the recorded one broke"]
    assert len(_found(cut, failed, complete=False)) == 1
    assert len(_found(cut, begun + stream_bytes([FAILED | {"type": "error"}])[0])) == 2
    assert len(_found(_stream(), STREAM + stream_bytes([FAILED])[0])) == 1


def test_a_json_answer_is_compared_as_json() -> None:
    recorded = HttpResponse(1, 200, response={"id": "resp_1", "usage": {"n": 1}})
    assert _found(recorded, b'{"usage": {"n": 1}, "id": "resp_1"}') == []
    assert _found(recorded, b'{"id":"resp_1","usage":{"n":1.0}}') == ["turn 1 body.usage.n: differs"]
    assert _found(recorded, b"oops") == ["turn 1 body: is no JSON as before"]
    assert _found(recorded, b"", complete=False) == ["turn 1 body: broke off"]


def test_another_status_is_the_whole_difference() -> None:
    assert _found(HttpResponse(1, 500, body=b"{}"), b"x", 502) == ["turn 1 status: 500 became 502"]


def test_a_body_that_is_no_json_is_compared_by_bytes() -> None:
    recorded = HttpResponse(1, 404, body=b"not found")
    assert _found(recorded, b"not found", 404) == []
    assert _found(recorded, b"something", 404) == ["turn 1 body: is no JSON as before"]


@pytest.mark.parametrize(
    ("got", "differences"),
    [
        (EVENTS, []),
        (EVENTS[:1], ["turn 2 messages: 2 became 1"]),
        ((EVENTS[0], EVENTS[1] | {"sequence_number": 9}), ["turn 2 message[1].sequence_number: differs"]),
    ],
)
def test_messages_have_to_be_the_same_bytes(got: tuple[dict[str, Any], ...], differences: list[str]) -> None:
    expected = [event_bytes(event) for event in EVENTS[:2]]
    frames = [json.dumps(event, separators=(",", ":"), ensure_ascii=False).encode() for event in got[:2]]
    assert [str(found) for found in frame_differences(2, expected, frames)] == differences
