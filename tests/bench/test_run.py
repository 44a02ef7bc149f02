"""Whether a replay sees what is wrong: a stand-in for the sidecar that lies in one way each time."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench import run
from bench.replay import replay
from bench.report import Report
from tests.support import make_trace
from tests.support.make_trace import Recording
from tests.support.stand_in import StandIn

RESPONSES = "/v1/responses"


async def _replayed(tmp_path: Path, recording: Recording, sidecar: StandIn | None = None) -> Report:
    return await replay(recording.write(tmp_path / "client" / "scenario.jsonl"), sidecar or StandIn())


def _changed(change: Callable[[dict[str, Any]], None]) -> Callable[[bytes], bytes]:
    """A change of the second turn's body."""

    def apply(raw: bytes) -> bytes:
        body = json.loads(raw)
        if len(body["input"]) == 4:
            change(body)
        return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()

    return apply


@pytest.mark.parametrize("stream", [True, False])
async def test_what_is_passed_on_as_it_is_is_invisible_and_every_delta_is_missed(
    tmp_path: Path, *, stream: bool
) -> None:
    report = await _replayed(tmp_path, make_trace.talk(stream=stream))
    assert (report.context_errors, report.differences) == ([], [])
    assert [(turn.transport, turn.reason) for turn in report.turns] == [("http", "client_state")] * 5
    assert [turn.possible_after for turn in report.turns] == [None, 1, 2, 3, 4]
    assert report.missed == {2: "", 3: "", 4: "", 5: ""}
    assert not report.ok


async def test_bytes_are_those_of_the_bodies_on_the_wire(tmp_path: Path) -> None:
    report = await _replayed(tmp_path, make_trace.talk(packed=True))
    assert all(turn.client_bytes == turn.upstream_bytes > 0 for turn in report.turns)
    assert report.notes == [f"5 bodies came compressed; without that they are {_decoded(tmp_path)} bytes"]


def _decoded(tmp_path: Path) -> int:
    lines = (tmp_path / "client" / "scenario.jsonl").read_text(encoding="utf-8").splitlines()
    return sum(json.loads(line).get("decoded_len", 0) for line in lines)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda body: body["input"].pop(1), "turn 2 $.input[1].arguments: differs"),
        (lambda body: body["input"].pop(), "turn 2 $.input: 4 items sent, 3 seen"),
        (lambda body: body["input"].append(body["input"][0]), "turn 2 $.input: 4 items sent, 5 seen"),
        (lambda body: body["tools"][0].update(name="x"), "turn 2 $.tools[0].name: differs"),
        (lambda body: body.pop("instructions"), "turn 2 $.instructions: was lost"),
        (lambda body: body.update(store=True), "turn 2 $.store: differs"),
        (lambda body: body.update(user="x"), "turn 2 $.user: was added"),
    ],
)
async def test_a_changed_context_is_found_by_turn_and_path(
    tmp_path: Path, change: Callable[[dict[str, Any]], None], error: str
) -> None:
    report = await _replayed(tmp_path, make_trace.talk(), StandIn(request=_changed(change)))
    assert error in report.context_errors
    assert not report.visible


async def test_a_body_that_was_written_anew_is_found(tmp_path: Path) -> None:
    sidecar = StandIn(request=lambda raw: json.dumps(json.loads(raw)).encode())
    report = await _replayed(tmp_path, make_trace.talk(), sidecar)
    assert report.context_errors == [f"turn {n}: the body was written anew" for n in range(1, 6)]


async def test_a_turn_that_never_arrives_and_one_that_is_refused_are_found(tmp_path: Path) -> None:
    def lose(raw: bytes) -> bytes:
        return b'{"input":[],"stream":true,"previous_response_id":"resp_none"}' if raw.count(b'"role"') < 2 else raw

    report = await _replayed(tmp_path, make_trace.cut(), StandIn(request=lose))
    assert report.context_errors[0] == "turn 1: the upstream refused it (400 previous_response_not_found)"
    assert str(report.visible[0]) == "turn 1 status: 200 became 400"


async def test_a_wrong_word_about_the_transport_is_found(tmp_path: Path) -> None:
    report = await _replayed(tmp_path, make_trace.own_state(), StandIn(transport="delta"))
    assert report.context_errors[0] == "turn 1: x-deltawire-transport says delta, the upstream saw http"
    assert report.turns[0].unforeseen


async def test_a_header_of_ours_that_reaches_the_upstream_is_found(tmp_path: Path) -> None:
    report = await _replayed(tmp_path, make_trace.own_state(), StandIn(extra_header="x-deltawire-trace"))
    assert report.context_errors[0] == "turn 1: header x-deltawire-trace reached the upstream"


@pytest.mark.parametrize(
    ("sidecar", "difference"),
    [
        (StandIn(answer=lambda raw: raw.replace(b"Done.", b"Gone.")), "event[7].text: differs"),
        (StandIn(answer=lambda raw: raw.rpartition(b"event:")[0]), "events became"),
        (StandIn(answer=lambda raw: raw.replace(b":null", b": null")), "(bytes only): differs"),
        (StandIn(status=502), "status: 200 became 502"),
    ],
)
async def test_a_changed_answer_is_found(tmp_path: Path, sidecar: StandIn, difference: str) -> None:
    report = await _replayed(tmp_path, make_trace.side_requests(), sidecar)
    assert difference in " ".join(map(str, report.visible))


async def test_no_answer_is_a_difference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "ANSWER_LIMIT", 0.0)
    report = await _replayed(tmp_path, make_trace.own_state())
    assert [str(found) for found in report.visible] == [f"turn {n} answer: never came" for n in (1, 2)]


async def test_requests_that_overlapped_overlap_again(tmp_path: Path) -> None:
    report = await _replayed(tmp_path, make_trace.side_requests())
    assert (report.context_errors, report.visible) == ([], [])
    assert [turn.n for turn in report.turns] == [2, 1, 3, 4]
    assert [turn.possible_after for turn in report.turns] == [None, None, None, 1]


async def test_a_cut_that_stays_a_cut_is_no_difference(tmp_path: Path) -> None:
    report = await _replayed(tmp_path, make_trace.cut(keep=True))
    assert (report.context_errors, report.differences) == ([], [])


async def test_a_recorded_error_is_played_and_takes_the_parent_with_it(tmp_path: Path) -> None:
    report = await _replayed(tmp_path, make_trace.retry_after_500())
    assert (report.context_errors, report.differences) == ([], [])
    assert [turn.possible_after for turn in report.turns] == [None, 1, 2, None, 4]


async def test_a_client_with_its_own_state_and_other_endpoints_come_through(tmp_path: Path) -> None:
    for recording in (make_trace.own_state(), make_trace.other_endpoints()):
        report = await _replayed(tmp_path, recording)
        assert report.ok
        assert report.missed == {}


async def test_a_request_that_is_no_turn_has_to_arrive_as_it_was(tmp_path: Path) -> None:
    report = await _replayed(tmp_path, make_trace.other_endpoints(), StandIn(request=lambda raw: raw + b" "))
    assert report.context_errors == [f"request {n}: did not reach the upstream once, as it was" for n in (1, 2, 3)]


async def test_a_websocket_conversation_is_carried_through(tmp_path: Path) -> None:
    report = await _replayed(tmp_path, make_trace.websocket())
    assert (report.ok, report.messages, report.turns) == (True, 4, [])
    assert report.notes == ["1 handshakes answered 426 in the recording are not replayed"]


async def test_lines_without_their_counterpart_are_noted(tmp_path: Path) -> None:
    recording = make_trace.own_state()
    recording.request("{}")
    recording.upgrade(1)
    recording.message(1, {"type": "response.create", "input": []}, [])
    del recording.lines[-1]
    recording.close(1)
    report = await _replayed(tmp_path, recording)
    assert report.notes == ["request 3 has no recorded answer", "message 4 has no recorded answer"]
