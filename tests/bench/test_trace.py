import json
from pathlib import Path
from typing import Any

import pytest

from bench.trace import (
    HttpRequest,
    TraceError,
    WsAnswer,
    WsClose,
    WsMessage,
    WsUpgrade,
    event_bytes,
    files,
    read,
    stream_bytes,
)
from tests.support import make_trace
from tests.support.make_trace import TOOLS, Recording


def _written(tmp_path: Path, recording: Recording) -> Path:
    return recording.write(tmp_path / "client" / "scenario.jsonl")


def test_a_trace_is_named_by_client_and_scenario(tmp_path: Path) -> None:
    trace = read(_written(tmp_path, make_trace.talk()))
    assert (trace.name, trace.client) == ("client/scenario", "client")


def test_requests_and_answers_are_paired_by_number(tmp_path: Path) -> None:
    trace = read(_written(tmp_path, make_trace.talk()))
    assert list(trace.requests) == list(trace.responses) == [1, 2, 3, 4, 5]
    assert all(request.is_turn for request in trace.requests.values())


def test_a_request_is_given_back_byte_for_byte(tmp_path: Path) -> None:
    recording = Recording()
    recording.request('{"input":"é"}')
    (request,) = read(_written(tmp_path, recording)).requests.values()
    assert request.head() == (
        b"POST /v1/responses HTTP/1.1\r\nHost: 127.0.0.1:8700\r\nauthorization: Bearer REDACTED\r\n"
        b"Content-Type: application/json\r\nContent-Length: 14\r\n\r\n"
    )
    assert request.wire == request.body == '{"input":"é"}'.encode()


def test_a_compressed_body_is_there_both_ways(tmp_path: Path) -> None:
    trace = read(_written(tmp_path, make_trace.talk(packed=True)))
    request = trace.requests[2]
    assert request.wire.startswith(b"\x28\xb5\x2f\xfd")
    assert json.loads(request.body)["model"] == "m"


def test_the_echo_of_the_request_is_put_back(tmp_path: Path) -> None:
    for stream in (True, False):
        answer = read(_written(tmp_path, make_trace.talk(stream=stream))).responses[1]
        response = answer.events[0]["response"] if answer.events else answer.response or {}
        assert response["tools"] == TOOLS
        assert response["instructions"] == "Be brief."


def test_an_echo_of_what_was_not_sent_is_empty(tmp_path: Path) -> None:
    recording = Recording()
    recording.response(recording.request("{}"), response={"tools": "$request.tools", "x": "$request.instructions"})
    assert read(_written(tmp_path, recording)).responses[1].response == {"tools": [], "x": None}


def test_an_answer_is_a_stream_a_response_a_body_or_cut(tmp_path: Path) -> None:
    trace = read(_written(tmp_path, make_trace.cut()))
    assert [trace.responses[n].cut for n in trace.responses] == [False, True, False, False]
    assert len(trace.responses[2].events or ()) == 6
    failed = read(_written(tmp_path, make_trace.retry_after_500())).responses[3]
    assert (failed.status, json.loads(failed.body or b"")) == (500, make_trace.FAILURE)


def test_a_websocket_conversation_keeps_its_order(tmp_path: Path) -> None:
    lines = read(_written(tmp_path, make_trace.websocket())).lines
    assert [type(line) for line in lines[:4]] == [WsUpgrade, WsUpgrade, WsMessage, WsAnswer]
    assert [(line.connection, line.code) for line in lines if isinstance(line, WsClose)] == [(1, 1000), (2, 1006)]


def test_notes_are_for_readers(tmp_path: Path) -> None:
    recording = Recording()
    recording.lines.append({"kind": "note", "n": 1, "text": "x"})
    assert read(_written(tmp_path, recording)).lines == ()


def test_a_path_with_a_query_is_still_a_turn() -> None:
    paths = {"/v1/responses?x=1": True, "/responses": True, "/v1/responses/compact": False, "/v1/models": False}
    for path, is_turn in paths.items():
        assert HttpRequest(1, "POST", path, "1.1", (), b"", b"").is_turn == is_turn
    assert not HttpRequest(1, "GET", "/v1/responses", "1.1", (), b"", b"").is_turn


def test_events_are_compact_raw_utf_8() -> None:
    event = {"type": "x", "text": "é", "number": 1.0}
    assert event_bytes(event) == '{"type":"x","text":"é","number":1.0}'.encode()
    assert stream_bytes([event]) == [b"event: x\ndata: " + event_bytes(event) + b"\n\n"]


@pytest.mark.parametrize(
    "line",
    [
        {"kind": "something"},
        {"no": "kind"},
        {"kind": "http_request", "n": 1, "method": "POST", "path": "/", "http": "1.1", "headers": []},
        {"kind": "http_response", "n": 9, "status": 200, "body": ""},
        {"kind": "ws_recv", "conn": 1, "n": 1, "body": "ab", "body_len": 3},
    ],
)
def test_a_line_of_another_kind_is_named_without_its_content(tmp_path: Path, line: dict[str, Any]) -> None:
    recording = Recording()
    recording.request("{}")
    recording.lines.append(line)
    with pytest.raises(TraceError, match=r"^scenario\.jsonl:2: not a recorded line \([A-Za-z]+\)$"):
        read(_written(tmp_path, recording))


def test_a_body_of_another_length_than_recorded_is_refused(tmp_path: Path) -> None:
    recording = Recording()
    recording.request("{}")
    recording.lines[0]["body_len"] = 3
    with pytest.raises(TraceError):
        read(_written(tmp_path, recording))


def test_an_answer_of_two_kinds_is_refused(tmp_path: Path) -> None:
    recording = Recording()
    recording.response(recording.request("{}"), body="", response={})
    with pytest.raises(TraceError):
        read(_written(tmp_path, recording))


def test_recordings_are_found_in_folders(tmp_path: Path) -> None:
    one = Recording().write(tmp_path / "b" / "one.jsonl")
    two = Recording().write(tmp_path / "a" / "two.jsonl")
    (tmp_path / "README.md").write_text("x")
    assert list(files([tmp_path])) == [two, one]
    assert list(files([one])) == [one]
