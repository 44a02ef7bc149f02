import json
from typing import Any

import pytest

from bench.recorded import Pending, Recorded, expected_events
from bench.trace import HttpRequest, HttpResponse, WsAnswer
from upstream.scripted import Call, Turn, answer, message
from upstream.scripted.context import Cache, Contexts
from upstream.scripted.steps import Close, Step, Text, Wait

EVENTS = tuple(answer([message("a")], response_id="resp_1", request={"previous_response_id": None}))


def _turn(text: str, **members: Any) -> Turn:
    turn = Turn(1, "ws", 1, json.dumps({"input": text} | members).encode())
    contexts = Contexts()
    if name := members.get("previous_response_id"):
        parent = Turn(1, "ws", 1, b"{}", response_id=name)
        contexts.commit(parent, Cache())
    contexts.open(turn, Cache())
    return turn


def _pending(n: int, text: str, answer_: HttpResponse | None = None, path: str = "/v1/responses") -> Pending:
    body = json.dumps({"input": text}).encode()
    request = HttpRequest(n, "POST", path, "1.1", (), body, body)
    return Pending(n, body, answer_ or HttpResponse(n, 200, events=EVENTS), request)


def _steps(recorded: Recorded, turn: Turn) -> list[Step]:
    return recorded.play(turn).steps(turn, "resp_x")


def test_a_turn_gets_the_recorded_events_once_the_gate_opens() -> None:
    recorded, pending = Recorded(), _pending(1, "a")
    recorded.sent(pending)
    first, *rest = _steps(recorded, _turn("a"))
    assert first == Wait(pending.gate)
    assert [json.loads(step.data) for step in rest if isinstance(step, Text)] == list(EVENTS)
    assert len(pending.turns) == 1


def test_the_parents_id_is_echoed_as_received_and_only_where_it_was_said() -> None:
    recorded = HttpResponse(1, 200, events=(*EVENTS[:1], {"type": "x", "response": {"id": "y"}}))
    assert [event["response"].get("previous_response_id") for event in expected_events(recorded, "resp_0")] == [
        "resp_0",
        None,
    ]
    assert expected_events(recorded, "resp_0")[1] == {"type": "x", "response": {"id": "y"}}


def test_a_json_answer_is_told_as_events() -> None:
    response = EVENTS[-1]["response"]
    assert expected_events(HttpResponse(1, 200, response=response), None)[-1]["response"] == response


def test_a_cut_answer_ends_the_connection() -> None:
    recorded = Recorded()
    recorded.sent(_pending(1, "a", HttpResponse(1, 200, events=EVENTS[:2], cut=True)))
    assert _steps(recorded, _turn("a"))[-1] == Close(1011)


def test_a_recorded_error_is_that_error() -> None:
    recorded = Recorded()
    body = b'{"error":{"message":"Went wrong.","type":"server_error","param":null,"code":null}}'
    recorded.sent(_pending(1, "a", HttpResponse(1, 500, body=body)))
    play = recorded.play(_turn("a"))
    assert play.error is not None
    assert (play.error.status, json.loads(play.error.http_body())) == (500, json.loads(body))


def test_a_websocket_answer_is_left_as_it_is() -> None:
    recorded = Recorded()
    recorded.sent(Pending(1, b'{"input":"a"}', WsAnswer(1, 1, EVENTS)))
    texts = [
        step.data for step in _steps(recorded, _turn("a", previous_response_id="resp_0")) if isinstance(step, Text)
    ]
    assert [json.loads(text) for text in texts] == list(EVENTS)


def test_turns_at_the_same_time_are_told_apart_by_their_context() -> None:
    recorded = Recorded()
    pending = [_pending(1, "a"), _pending(2, "b"), _pending(3, "b")]
    for one in pending:
        recorded.sent(one)
    for text in "bab":
        recorded.play(_turn(text))
    assert [len(one.turns) for one in pending] == [1, 1, 1]


def test_a_turn_that_is_tried_again_gets_the_same_answer() -> None:
    recorded, pending = Recorded(), _pending(1, "a")
    recorded.sent(pending)
    for _ in range(2):
        assert recorded.play(_turn("a")).error is None
    assert len(pending.turns) == 2


def test_a_turn_that_nobody_sent_is_an_error() -> None:
    recorded = Recorded()
    recorded.sent(_pending(1, "a"))
    recorded.answered(1)
    assert recorded.play(_turn("a")).error is not None


@pytest.mark.parametrize("arrives", ["/v1/models", "/v1/v1/models"])
def test_another_endpoint_answers_as_recorded_also_below_the_base_path(arrives: str) -> None:
    recorded = Recorded()
    recorded.sent(_pending(1, "a", HttpResponse(1, 403, body=b"no"), "/v1/models"))
    reply = recorded.reply(Call("POST", arrives, {}, b""))
    assert (reply.status, reply.body) == (403, b"no")


@pytest.mark.parametrize(("method", "path"), [("GET", "/v1/models"), ("POST", "/v1/other"), ("POST", "/v1/responses")])
def test_an_endpoint_that_was_not_recorded_does_not_exist(method: str, path: str) -> None:
    recorded = Recorded()
    recorded.sent(_pending(1, "a", HttpResponse(1, 200, body=b"no"), "/v1/models"))
    recorded.sent(_pending(2, "a"))
    assert recorded.reply(Call(method, path, {}, b"")).status == 404
