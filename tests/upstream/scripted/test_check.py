import json
from typing import Any

import pytest

from upstream.scripted.answers import function_call, message, reasoning
from upstream.scripted.check import check_context, compare, difference
from upstream.scripted.turn import ContextItem, Turn
from wire.errors import previous_not_found
from wire.exact import parse

A, B = {"role": "user", "content": "a", "n": 1}, {"role": "user", "content": "b"}
CALL = function_call("call_1", "run", '{"a": 1}', id="fc_1")
SEALED = reasoning("e1", id="rs_1")


def _raw(value: object) -> bytes:
    return json.dumps(value).encode()


def _turn(*context: ContextItem, parent: str | None = None, own: int = 0, **envelope: Any) -> Turn:
    turn = Turn(1, "ws", 1, b"", context=context, own=context[len(context) - own :])
    turn.members = {name: _raw(value) for name, value in envelope.items()}
    if parent:
        turn.members["previous_response_id"] = _raw(parent)
    return turn


def _sent(item: object) -> ContextItem:
    return ContextItem(_raw(item))


def _made(item: object, other: object = None) -> ContextItem:
    return ContextItem(_raw(item), output=True, other=_raw(other) if other else b"")


def _found(turn: Turn, **body: Any) -> list[str]:
    return [str(mismatch) for mismatch in compare(turn, _raw(body))]


def test_the_same_items_in_another_key_order_are_no_mismatch() -> None:
    assert _found(_turn(_sent({"content": "a", "n": 1, "role": "user"}), _sent(B)), input=[A, B]) == []


def test_text_alone_is_compared_as_the_message_it_stands_for() -> None:
    seen = _sent({"type": "message", "role": "user", "content": "hi"})
    assert _found(_turn(seen), input="hi") == []
    assert _found(_turn(seen), input="ho") == ["turn 1 $.input[0].content: differs"]


@pytest.mark.parametrize("wrong", [1.0, True, "1", 2])
def test_a_number_that_reads_differently_is_a_mismatch(wrong: object) -> None:
    assert _found(_turn(_sent(A | {"n": wrong})), input=[A]) == ["turn 1 $.input[0].n: differs"]


def test_a_lost_a_doubled_and_a_moved_item_are_mismatches() -> None:
    assert _found(_turn(_sent(A)), input=[A, B]) == ["turn 1 $.input: 2 items sent, 1 seen"]
    assert _found(_turn(_sent(A), _sent(B), _sent(B)), input=[A, B]) == ["turn 1 $.input: 2 items sent, 3 seen"]
    assert len(_found(_turn(_sent(B), _sent(A)), input=[A, B])) == 2


def test_an_echo_may_differ_where_clients_differ() -> None:
    echo = {"type": "function_call", "call_id": "call_1", "name": "run", "arguments": '{"a":1}'}
    assert _found(_turn(_sent(A), _made(CALL)), input=[A, echo]) == []
    reason = "is no echo of the output that stands for it"
    assert _found(_turn(_made(CALL)), input=[echo | {"name": "x"}]) == [f"turn 1 $.input[0]: {reason}"]


def test_the_clients_own_items_may_not_differ_at_all() -> None:
    assert _found(_turn(_sent(CALL)), input=[CALL | {"arguments": '{"a":1}'}]) == [
        "turn 1 $.input[0].arguments: differs"
    ]


def test_either_form_of_a_sealed_item_is_its_echo() -> None:
    other = SEALED | {"encrypted_content": "e2"}
    turn = _turn(_made(SEALED, other))
    assert _found(turn, input=[SEALED]) == _found(turn, input=[other]) == []
    assert len(_found(turn, input=[SEALED | {"encrypted_content": "e3"}])) == 1


@pytest.mark.parametrize("reference", [{"type": "item_reference", "id": "fc_1"}, {"id": "fc_1"}])
def test_a_reference_has_to_name_the_output_in_its_place(reference: dict[str, Any]) -> None:
    assert _found(_turn(_made(CALL)), input=[reference]) == []
    assert len(_found(_turn(_made(SEALED)), input=[reference])) == 1


def test_a_lost_an_added_and_a_changed_field_are_mismatches() -> None:
    turn = _turn(model="m", tools=[{"name": "x"}], user="u", stream=True)
    assert _found(turn, model="m", tools=[{"name": "y"}], store=False, background=False) == [
        "turn 1 $.store: was lost",
        "turn 1 $.tools[0].name: differs",
        "turn 1 $.user: was added",
    ]


def test_no_mismatch_quotes_content() -> None:
    found = _found(_turn(_sent(A), model="secret"), input=[A | {"content": "hidden"}], model="other")
    assert len(found) == 2
    assert not any(word in text for text in found for word in ("secret", "hidden", "other"))


def test_a_client_that_chains_itself_is_compared_by_what_its_frame_said() -> None:
    turn = _turn(_sent(A), _made(message("x")), _sent(B), parent="resp_1", own=1)
    assert _found(turn, input=[B], previous_response_id="resp_1") == []
    assert _found(turn, input=[B], previous_response_id="resp_2") == ["turn 1 $.previous_response_id: not the client's"]


def test_turns_and_bodies_are_paired_in_order() -> None:
    turns = [_turn(_sent(A)), _turn(_sent(A), _sent(B))]
    bodies = [_raw({"input": [A]}), _raw({"input": [A, A]})]
    assert [m.turn for m in check_context(turns, bodies)] == [2]


def test_a_refused_first_try_is_not_a_turn_of_its_own() -> None:
    refused = _turn()
    refused.error = previous_not_found("resp_1")
    assert check_context([refused, _turn(_sent(A))], [_raw({"input": [A]})]) == []


def test_missing_and_superfluous_turns_are_reported() -> None:
    body = _raw({"input": [A]})
    assert [m.reason for m in check_context([], [body])] == ["never reached the upstream"]
    assert [m.turn for m in check_context([_turn(_sent(A)), _turn(_sent(A))], [body])] == [0]


@pytest.mark.parametrize(
    ("one", "other", "path"),
    [
        (b'{"a":[1,{"b":2}]}', b'{"a":[1,{"b":3}]}', ".a[1].b"),
        (b'{"a":1}', b'{"a":1,"b":2}', ".b"),
        (b"[1,2]", b"[1]", "[1]"),
        (b"1.0", b"1", ""),
        (b"1.0", b"1.00", ""),
        (b"1e3", b"1e3", None),
        (b"null", b"false", ""),
        (b'{"a":1,"b":2}', b'{"b":2,"a":1}', None),
    ],
)
def test_the_first_difference_is_a_path(one: bytes, other: bytes, path: str | None) -> None:
    assert difference(parse(one), parse(other)) == path


def test_in_a_resumed_turn_null_and_absent_are_the_same() -> None:
    turn = _turn(_sent(A), parent="resp_1", model="m", user=None)
    assert _found(turn, input=[A], model="m", top_p=None) == ["turn 1 $.top_p: was lost", "turn 1 $.user: was added"]
    turn.resumes = True
    assert _found(turn, input=[A], model="m", top_p=None) == []
    assert _found(turn, input=[A], model="n", top_p=1) == ["turn 1 $.model: differs", "turn 1 $.top_p: was lost"]
