"""A turn's body, taken apart: which members decide its way, in every spelling."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.request import is_json, read
from wire.split import Malformed


def body(members: str, given_input: str = "[]") -> bytes:
    return ('{"input":' + given_input + ("," + members if members else "") + "}").encode()


@pytest.mark.parametrize(
    ("members", "field", "value"),
    [
        ("", "stream", False),
        ('"stream":true', "stream", True),
        ('"stream" :\n true ', "stream", True),
        ('"stream":false', "stream", False),
        ('"stream":null', "stream", False),
        ('"stream":1', "stream", False),
        ('"stream":1', "readable", False),
        ('"stream":"true"', "readable", False),
        ('"stream":null', "readable", True),
        ('"stre\\u0061m":true', "stream", True),
        ("", "stored", True),
        ('"store":true', "stored", True),
        ('"store":null', "stored", True),
        ('"store": false', "stored", False),
        ('"st\\u006fre":false', "stored", False),
        ("", "client_state", False),
        ('"previous_response_id":null,"conversation": null,"background":null', "client_state", False),
        ('"background":false', "client_state", False),
        ('"previous_response_id":"resp_1"', "client_state", True),
        ('"previous_response_id":""', "client_state", True),
        ('"previous\\u005fresponse_id":"resp_1"', "client_state", True),
        ('"conversation":"conv_1"', "client_state", True),
        ('"conversation":{"id":"conv_1"}', "client_state", True),
        ('"background":true', "client_state", True),
        ('"background":"yes"', "client_state", True),
        ("", "tools", False),
        ('"tools":null', "tools", False),
        ('"tools":[]', "tools", False),
        ('"tools":[{"type":"function"}]', "tools", True),
        ("", "model", ""),
        ('"model":"gpt-5.5"', "model", "gpt-5.5"),
        ('"model":"\\u0067pt"', "model", "gpt"),
        ('"model":5', "model", ""),
        ('"model":null', "model", ""),
        ("", "readable", True),
        ('"type":"response.create"', "readable", False),
        ('"stream_id":"lane"', "readable", False),
        ('"generate":false', "readable", False),
        ('"deltawire_envelope":{}', "readable", False),
        ('"response_id":"resp_1"', "readable", False),
        ('"deltawire\\u005fenvelope":{}', "readable", False),
    ],
)
def test_a_member_decides_in_every_spelling(members: str, field: str, value: Any) -> None:
    assert getattr(read(body(members)), field) == value


@pytest.mark.parametrize(
    ("given_input", "readable"),
    [("[]", True), ('["x"]', True), ('"hi"', True), (" [ ] ", True), ("null", False), ("{}", False), ("5", False)],
)
def test_an_input_is_an_array_or_a_string(given_input: str, *, readable: bool) -> None:
    assert read(body("", given_input)).readable is readable


def test_a_body_without_an_input_is_not_for_the_sidecar_to_judge() -> None:
    assert not read(b"{}").readable
    assert not read(b'{"prompt":{"id":"pmpt_1"}}').readable


def test_members_keep_their_bytes_and_order() -> None:
    found = read(b'{ "b" : 1.00 , "inp\\u0075t":[ {"a" : "\\u00e9"} ],"a":{"x":1 ,"y":2}}')
    assert found.members == {"b": b"1.00", "input": b'[ {"a" : "\\u00e9"} ]', "a": b'{"x":1 ,"y":2}'}
    assert list(found.members) == ["b", "input", "a"]
    assert found.input == b'[ {"a" : "\\u00e9"} ]'


@pytest.mark.parametrize(
    "text",
    [b'{"input":[],"input":[]}', b'{"input":[],"inp\\u0075t":[1]}', b'{"store":false,"input":[],"store":true}'],
)
def test_a_key_that_stands_twice_is_malformed_and_json_all_the_same(text: bytes) -> None:
    with pytest.raises(Malformed):
        read(text)
    assert is_json(text)


@pytest.mark.parametrize(
    "text",
    [b"", b"{", b"nul", b'{"input":[]}x', b'{"a":"\xff"}', b"{'a':1}", b"[" * 100_000, b"\x00", b"\xff\xfe"],
)
def test_what_is_no_json_is_malformed_and_not_json(text: bytes) -> None:
    with pytest.raises(Malformed):
        read(text)
    assert not is_json(text)


@pytest.mark.parametrize("text", [b"[]", b"null", b'"x"', b'{"model":"\\ud800"}', '{"input":[]}'.encode("utf-16")])
def test_json_that_is_no_object_or_not_exact_is_for_the_upstream_to_judge(text: bytes) -> None:
    with pytest.raises(Malformed):
        read(text)
    assert is_json(text)


@given(st.binary(max_size=60) | st.text('{}[]",:\\input 0e1', max_size=40).map(str.encode))
def test_any_bytes_are_read_or_malformed(data: bytes) -> None:
    try:
        found = read(data)
    except Malformed:
        is_json(data)
    else:
        assert is_json(data)
        assert not found.readable or found.input[:1] in {b"[", b'"'}
