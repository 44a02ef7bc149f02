"""Events: what a relay reads of a frame, and that it changes nothing but what it has to."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.events import HANDSHAKE, TERMINAL, peek, response_head, restore_previous_id
from wire.split import Malformed, members

NULL = b"null"


def frame(**response: Any) -> bytes:
    return json.dumps({"type": "response.created", "sequence_number": 0, "response": response}).encode()


def test_an_event_is_known_by_its_members() -> None:
    raw = b'{"type":"response.output_item.done","sequence_number":5,"output_index":2,"stream_id":"l","item":{"x": 1.0}}'
    event = peek(raw)
    assert (event.type, event.sequence_number, event.output_index, event.stream_id) == (
        "response.output_item.done",
        5,
        2,
        "l",
    )
    assert bytes(event.item) == b'{"x": 1.0}'
    assert bytes(event.response) == b""


def test_of_an_unknown_event_the_type_is_enough() -> None:
    assert peek(b'{"more":[1,{"type":"no"}],"type":"novelty"}').type == "novelty"


def test_an_error_without_a_type_is_an_error() -> None:
    assert peek(b'{"error":{"message":"No.","type":"api_error"}}').type == "error"
    assert peek(b'{"type":"novelty","error":{"message":"No."}}').type == "novelty"


@pytest.mark.parametrize(
    "raw",
    [
        *(b"", b"[]", b"null", b"{}", b'{"type":1}', b'{"type":null}', b'{"type":"a"', b"\xff"),
        *(b'{"error":null}', b'{"error":"No."}', b'{"type":null,"error":{}}'),
    ],
)
def test_what_has_no_type_is_no_event(raw: bytes) -> None:
    with pytest.raises(Malformed):
        peek(raw)


@pytest.mark.parametrize("make", [peek, lambda raw: restore_previous_id(raw, NULL)])
def test_huge_nesting_is_malformed_and_no_crash(make: Any) -> None:
    deep = b"[" * 1_000_000 + b"]" * 1_000_000
    with pytest.raises(Malformed):
        make(b'{"type":"a","response":%b}' % deep)


def test_a_response_is_known_by_its_name_and_its_output() -> None:
    head = response_head(peek(frame(id="resp_1", output=[1.5], usage=None, more=1)))
    assert (head.id, bytes(head.output)) == ("resp_1", b"[1.5]")


@pytest.mark.parametrize("raw", [b'{"type":"a"}', b'{"type":"a","response":null}', b'{"type":"a","response":{}}'])
def test_without_a_response_nothing_is_named(raw: bytes) -> None:
    head = response_head(peek(raw))
    assert (head.id, bytes(head.output)) == ("", b"")


def test_a_response_that_is_no_object_is_malformed() -> None:
    with pytest.raises(Malformed):
        response_head(peek(b'{"type":"a","response":[]}'))
    with pytest.raises(Malformed):
        restore_previous_id(b'{"type":"a","response":[]}', NULL)


def test_the_previous_id_becomes_what_the_client_sent_and_all_else_keeps_its_bytes() -> None:
    raw = (
        b'{"type":"response.created","response":{"id":"resp_1", "temperature":1.00,"previous_response_id":"resp_0",'
        b'"metadata":{"previous_response_id":"resp_0"},"text":"\\u00e9 \xc3\xa9"},"sequence_number":0}'
    )
    shown = restore_previous_id(raw, NULL)
    assert shown.frame == (
        b'{"type":"response.created","response":{"id":"resp_1","temperature":1.00,"previous_response_id":null,'
        b'"metadata":{"previous_response_id":"resp_0"},"text":"\\u00e9 \xc3\xa9"},"sequence_number":0}'
    )
    assert (shown.response, shown.members) == (members(shown.frame)["response"], members(shown.response))
    assert b'"previous_response_id":"resp_own"' in restore_previous_id(raw, b'"resp_own"').frame


@pytest.mark.parametrize(
    "raw",
    [
        b' {"type": "a", "response": {"previous_response_id" : null , "id":"b"}} ',
        b'{ "type":"a", "response": {"id" :"b"} }',
        b'{ "type":"a", "response": null }',
        b'{ "type":"a", "previous_response_id":"resp_0" }',
    ],
)
def test_a_frame_that_needs_no_change_is_the_very_same(raw: bytes) -> None:
    shown = restore_previous_id(raw, NULL)
    assert shown.frame is raw
    response = members(raw).get("response", NULL)
    assert (shown.response, shown.members) == ((b"", {}) if response == NULL else (response, members(response)))


@pytest.mark.parametrize(
    "raw", [b'{"response":{"previous_response_id":"a","previous_response_id":null}}', b'{"a":1,"a":1}']
)
def test_a_frame_in_which_a_key_stands_twice_is_malformed(raw: bytes) -> None:
    with pytest.raises(Malformed):
        restore_previous_id(raw, NULL)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(exclude_categories=["Cs"]), max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["a", "previous_response_id"]), inner),
    max_leaves=6,
)


@given(
    st.dictionaries(st.sampled_from(["id", "output", "previous_response_id", "é"]), VALUES),
    st.dictionaries(st.sampled_from(["type", "sequence_number", "previous_response_id", "x"]), VALUES),
    st.sampled_from([NULL, b'"resp_own"']),
    st.sampled_from([None, 1]),
)
def test_nothing_but_the_previous_id_ever_changes(
    response: dict[str, Any], rest: dict[str, Any], shown: bytes, indent: int | None
) -> None:
    raw = json.dumps(rest | {"response": response}, indent=indent).encode()
    restored, inner, inner_after = restore_previous_id(raw, shown)
    expected = response | ({"previous_response_id": json.loads(shown)} if "previous_response_id" in response else {})
    assert json.loads(restored) == rest | {"response": expected}
    before, after = members(raw), members(restored)
    assert list(before) == list(after)
    assert all(before[name] == after[name] for name in before if name != "response")
    assert (inner, inner_after) == (after["response"], members(after["response"]))
    inner_before = members(before["response"])
    assert list(inner_before) == list(inner_after)
    assert all(inner_before[name] == inner_after[name] for name in inner_before if name != "previous_response_id")


def test_an_end_is_no_beginning() -> None:
    assert "error" in TERMINAL
    assert frozenset() == TERMINAL & HANDSHAKE
