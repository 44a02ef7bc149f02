import json
from collections.abc import Sequence
from typing import Any

import pytest

from bench.oracle import FREE, Oracle
from state.envelope import POLICY, Policy
from upstream.scripted import function_call, message, reasoning

A, B, C = ({"role": "user", "content": text} for text in "abc")
ANSWER = message("yes", id="msg_1")
SEALED = reasoning("e1", id="rs_1")
CALL = function_call("call_1", "run", '{"a": 1}', id="fc_1")


def _body(*items: Any, **members: Any) -> bytes:
    return json.dumps({"model": "m", "store": False, "input": list(items)} | members).encode()


def _told(first: bytes, output: Sequence[Any]) -> Oracle:
    oracle = Oracle()
    assert not oracle.asked(1, first).possible
    oracle.completed(1, [json.dumps(item).encode() for item in output])
    return oracle


def test_an_earlier_turn_with_its_answer_and_something_new_can_go_on() -> None:
    oracle = _told(_body(A), [SEALED, CALL])
    echo = {"type": "function_call", "call_id": "call_1", "name": "run", "arguments": '{"a":1}'}
    assert oracle.asked(2, _body(A, SEALED, echo, B)).parent == 1


@pytest.mark.parametrize(
    ("items", "why_not"),
    [
        ([B, ANSWER, C], "no earlier turn is a part of it"),
        ([A], "turn 1: the same turn again"),
        ([A, ANSWER], "turn 1: nothing new"),
        ([A, message("no"), B], "turn 1: no echo of its output"),
        ([A, B, ANSWER], "turn 1: no echo of its output"),
    ],
)
def test_anything_else_cannot(items: list[Any], why_not: str) -> None:
    verdict = _told(_body(A), [ANSWER]).asked(2, _body(*items))
    assert (verdict.possible, verdict.why_not) == (False, why_not)


def test_dropped_reasoning_is_no_echo() -> None:
    assert not _told(_body(A), [SEALED, CALL]).asked(2, _body(A, CALL, B)).possible


@pytest.mark.parametrize("reference", [{"type": "item_reference", "id": "msg_1"}, {"id": "msg_1"}])
def test_a_reference_to_the_output_is_an_echo(reference: dict[str, Any]) -> None:
    assert _told(_body(A), [ANSWER]).asked(2, _body(A, reference, B)).possible
    assert not _told(_body(A), [message("yes", id="msg_2")]).asked(2, _body(A, reference, B)).possible


def test_key_order_never_matters_and_numbers_are_their_text() -> None:
    assert _told(_body({"x": 1, "y": 2}), []).asked(2, _body({"y": 2, "x": 1}, B)).possible
    assert not _told(_body({"x": 1}), []).asked(2, _body({"x": 1.0}, B)).possible


@pytest.mark.parametrize(
    ("changed", "possible"),
    [
        ({"temperature": 0.5}, True),
        ({"metadata": {"turn": "2"}}, True),
        ({"stream": True}, True),
        ({"user": None}, True),
        ({"tools": None}, True),
        ({"tools": [{"name": "x"}]}, False),
        ({"instructions": "x"}, False),
        ({"store": True}, False),
        ({"something_new": 1}, False),
    ],
)
def test_only_fields_that_do_not_shape_the_context_may_change(changed: dict[str, Any], *, possible: bool) -> None:
    verdict = _told(_body(A), [ANSWER]).asked(2, _body(A, ANSWER, B, **changed))
    assert verdict.possible == possible
    assert possible or verdict.why_not == f"turn 1: {next(iter(changed))} changed"


@pytest.mark.parametrize("state", [{"previous_response_id": "resp_1"}, {"conversation": "c"}, {"background": True}])
def test_a_client_with_state_of_its_own_is_left_alone(state: dict[str, Any]) -> None:
    assert not _told(_body(A), [ANSWER]).asked(2, _body(A, ANSWER, B, **state)).possible


def test_the_longest_earlier_turn_is_continued() -> None:
    oracle = _told(_body(A), [ANSWER])
    assert oracle.asked(2, _body(A, ANSWER, B)).parent == 1
    oracle.completed(2, [json.dumps(CALL).encode()])
    assert oracle.asked(3, _body(A, ANSWER, B, CALL, C)).parent == 2


@pytest.mark.parametrize(("store", "again"), [({}, False), ({"store": None}, True), ({"store": True}, True)])
def test_what_is_not_stored_goes_on_once(store: dict[str, Any], *, again: bool) -> None:
    oracle = _told(_body(A, **store), [ANSWER])
    assert oracle.asked(2, _body(A, ANSWER, B, **store)).possible
    assert oracle.asked(3, _body(A, ANSWER, C, **store)).possible == again


@pytest.mark.parametrize("store", [{}, {"store": None}])
def test_a_failure_takes_what_it_continued_with_it(store: dict[str, Any]) -> None:
    oracle = _told(_body(A, **store), [ANSWER])
    oracle.asked(2, _body(A, ANSWER, B, **store))
    oracle.failed(2)
    assert not oracle.asked(3, _body(A, ANSWER, B, **store)).possible


def test_a_failure_is_nothing_to_go_on_from() -> None:
    oracle = Oracle()
    oracle.asked(1, _body(A))
    oracle.failed(1)
    assert not oracle.asked(2, _body(A, B)).possible


def test_text_alone_is_a_message() -> None:
    oracle = Oracle()
    oracle.asked(1, b'{"input":"hi"}')
    oracle.completed(1, [])
    message_of_user = {"type": "message", "role": "user", "content": "hi"}
    assert oracle.asked(2, json.dumps({"input": [message_of_user, A]}).encode()).possible


def test_its_own_list_of_free_fields_names_those_that_the_sidecar_takes_for_free() -> None:
    assert {name for name, policy in POLICY.items() if policy is Policy.FREE} == FREE
