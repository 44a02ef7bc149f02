"""Taking apart and putting together: every byte of every value survives, and nothing ambiguous gets through."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.split import Malformed, elements, members, splice

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
SPACE = st.text(" \t\r\n", max_size=2)
SCALARS = st.sampled_from(
    ["0", "-0", "1.00", "1e5", "1E-400", "true", "false", "null", '""', '"\\u00e9"', '"é"', '"\\/"']
)


@st.composite
def containers(draw: st.DrawFn, inner: st.SearchStrategy[str]) -> str:
    """An array or object written with white space and escapes in any place."""

    def space() -> str:
        return draw(SPACE)

    values = [space() + draw(inner) + space() for _ in range(draw(st.integers(0, 3)))]
    if draw(st.booleans()):
        return "[" + (",".join(values) or space()) + "]"
    keys = draw(st.lists(TEXT, min_size=len(values), max_size=len(values), unique=True))
    written = [space() + json.dumps(key, ensure_ascii=draw(st.booleans())) + space() for key in keys]
    return "{" + (",".join(f"{key}:{value}" for key, value in zip(written, values, strict=True)) or space()) + "}"


VALUES = st.recursive(SCALARS | TEXT.map(json.dumps), containers, max_leaves=8)
OBJECTS = st.tuples(SPACE, containers(VALUES), SPACE).map("".join).filter(lambda text: text.strip().startswith("{"))
ARRAYS = st.tuples(SPACE, containers(VALUES), SPACE).map("".join).filter(lambda text: text.strip().startswith("["))


def test_members_are_the_raw_values_in_their_order() -> None:
    raw = b' { "b" : [1 , 2.00 ] ,\n"a":"\\u00e9","c": {"x":1e5} }\t'
    assert list(members(raw).items()) == [("b", b"[1 , 2.00 ]"), ("a", b'"\\u00e9"'), ("c", b'{"x":1e5}')]


def test_elements_are_the_raw_values_in_their_order() -> None:
    assert elements(b' [ {"a": 1.0} ,"x" , null,[ ] ]\n') == [b'{"a": 1.0}', b'"x"', b"null", b"[ ]"]
    assert elements(b"[ ]") == []


@given(OBJECTS)
def test_every_member_keeps_its_bytes_and_the_whole_its_meaning(text: str) -> None:
    raw = text.encode()
    taken = members(raw)
    plain: dict[str, Any] = json.loads(text)
    assert list(taken) == list(plain)
    assert all(value in raw and value == value.strip() for value in taken.values())
    assert {key: json.loads(value) for key, value in taken.items()} == plain
    assert json.loads(splice(taken.items())) == plain
    assert list(members(splice(taken.items())).items()) == list(taken.items())


@given(ARRAYS)
def test_every_element_keeps_its_bytes(text: str) -> None:
    raw = text.encode()
    taken = elements(raw)
    assert [json.loads(value) for value in taken] == json.loads(text)
    assert all(value in raw and value == value.strip() for value in taken)
    assert elements(b"[%b]" % b",".join(taken)) == taken


def test_splicing_writes_values_as_they_are_and_keys_as_json() -> None:
    assert splice([("a", b"1.00"), ('q"\n', b"[ 1 ]")]) == b'{"a":1.00,"q\\"\\n":[ 1 ]}'
    assert splice([]) == b"{}"


@pytest.mark.parametrize(
    "raw",
    [
        b'{"a":1,"a":1}',
        b'{"a":1,"a":2}',
        b'{"a":1,"\\u0061":2}',
        b'{"\\u0061":2,"a":2}',
        b'{"a":12,"a":1}',
        b'{"a":1,"a":12}',
        b'{"a":1,"b":2,"a":1}',
        b'{"b":1,"a":2,"b":3,"c":4}',
        b'{"c":0,"b":1 , "b" : 1 }',
        b'{"a":"x,","a":"x"}',
        b'{"":1,"":1}',
        b'{"a":{},"a":{}}',
        b'{"\\/":1,"/":1}',
        '{"é":1,"\\u00e9":1}'.encode(),
        b'{"\\ud83d\\ude00":1,"\xf0\x9f\x98\x80":1}',
    ],
)
def test_a_key_that_stands_twice_is_malformed_however_it_is_written(raw: bytes) -> None:
    with pytest.raises(Malformed, match="twice"):
        members(raw)


@given(OBJECTS, st.data())
def test_a_member_repeated_anywhere_is_malformed(text: str, data: st.DataObject) -> None:
    pairs = list(members(text.encode()).items())
    if not pairs:
        return
    again = (data.draw(st.sampled_from(pairs))[0], data.draw(VALUES).encode())
    pairs.insert(data.draw(st.integers(0, len(pairs))), again)
    with pytest.raises(Malformed, match="twice"):
        members(splice(pairs))


def test_a_key_that_stands_twice_further_inside_is_left_to_whoever_reads_that_value() -> None:
    assert members(b'{"a":{"b":1,"b":2}}') == {"a": b'{"b":1,"b":2}'}


@pytest.mark.parametrize(
    "raw",
    [
        *(
            b"",
            b" ",
            b"null",
            b"[]",
            b"1",
            b'"a"',
            b"{",
            b"}",
            b"{}}",
            b"{}{}",
            b"{}x",
            b'{"a"}',
            b'{"a":}',
            b'{"a":1,}',
        ),
        *(
            b'{"a":1 "b":2}',
            b'{"a":1;"b":2}',
            b"{a:1}",
            b"{'a':1}",
            b'{"a":01}',
            b'{"a":1.}',
            b'{"a":+1}',
            b'{"a":NaN}',
        ),
        *(
            b'{"a":[1,]}',
            b'{"a":[1}}',
            b'{"a":"\x01"}',
            b'{"a":"\\x"}',
            b'{"a":tru}',
            b'{"a":"',
            b'\xef\xbb\xbf{"a":1}',
        ),
    ],
)
def test_what_is_no_json_object_is_malformed(raw: bytes) -> None:
    with pytest.raises(Malformed):
        members(raw)


@pytest.mark.parametrize(
    "raw", [b"", b"{}", b"null", b"[", b"]", b"[1,]", b"[,1]", b"[1 2]", b"[1]]", b'["a]', b"[01]"]
)
def test_what_is_no_json_array_is_malformed(raw: bytes) -> None:
    with pytest.raises(Malformed):
        elements(raw)


@pytest.mark.parametrize("bad", [b"\xff", b"\xc3", b"\xc0\x80", b"\xed\xa0\x80", b"\xf5\x80\x80\x80"])
def test_bytes_that_are_no_utf8_are_malformed_also_where_nothing_reads_them(bad: bytes) -> None:
    for raw in (b'{"a":"%b"}' % bad, b'{"%b":1}' % bad, b'{"a":[{"b":"%b"}]}' % bad):
        with pytest.raises(Malformed, match="UTF-8"):
            members(raw)
    with pytest.raises(Malformed, match="UTF-8"):
        elements(b'["%b"]' % bad)


@pytest.mark.parametrize("depth", [10_000, 1_000_000])
def test_huge_nesting_is_malformed_and_no_crash(depth: int) -> None:
    deep = b"[" * depth + b"]" * depth
    for raw in (b'{"a":%b}' % deep, b'{"a":' * depth + b"1" + b"}" * depth):
        with pytest.raises(Malformed, match="deep"):
            members(raw)
    with pytest.raises(Malformed, match="deep"):
        elements(deep)


def test_nesting_as_deep_as_people_write_it_is_fine() -> None:
    deep = b"[" * 100 + b"]" * 100
    assert members(b'{"a":%b}' % deep) == {"a": deep}


@given(
    st.binary(max_size=30)
    | st.text(max_size=30).map(str.encode)
    | st.text('{}[]",:\\u01ea \n', max_size=20).map(str.encode)
)
def test_junk_raises_malformed_and_nothing_else(raw: bytes) -> None:
    for take in (members, elements):
        try:
            taken = take(raw)
        except Malformed:
            continue
        assert json.loads(raw) is not None
        assert len(taken) == len(json.loads(raw))


@given(OBJECTS, st.data())
def test_one_changed_byte_never_gives_other_members_than_the_bytes_say(text: str, data: st.DataObject) -> None:
    raw = bytearray(text.encode())
    raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    try:
        taken = members(bytes(raw))
    except Malformed:
        return
    assert {key: json.loads(value) for key, value in taken.items()} == json.loads(bytes(raw))


def test_what_is_wrong_says_where_but_not_what() -> None:
    for raw in (b'{"a":"hunter2" "hunter2"}', b'{"hunter2":1,"hunter2":1}', b'{"a":"hunter2\xff"}', b'"hunter2"'):
        with pytest.raises(Malformed) as caught:
            members(raw)
        assert "hunter2" not in str(caught.value)
        assert caught.value.reason == str(caught.value)
        assert caught.value.__suppress_context__ or caught.value.__context__ is None
