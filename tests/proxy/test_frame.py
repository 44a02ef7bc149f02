"""The frame of a turn: every member of the client's body travels, or its digest does."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy import frame
from proxy.frame import SentEnvelope
from state.digest import Keyed
from wire.extensions import (
    CONTEXT_FIELD,
    ENVELOPE_BYTES,
    ENVELOPE_FIELD,
    ENVELOPE_MEMBERS,
    ENVELOPE_WORTHWHILE,
    envelope_digest,
)
from wire.split import members

DROPPED = {"stream", "background", "background_options", "previous_response_id"}
LARGE = json.dumps("x" * ENVELOPE_WORTHWHILE).encode()
BODY = (
    b'{ "stream":true,"tools" : [ {"a":1.0} ],"input":[ {"b":"\\u00e9"} ],"z":1e400,"background":false,"a":"\xc3\xa9"}'
)


def test_a_full_frame_is_the_body_spliced_anew_byte_for_byte() -> None:
    assert frame.full(members(BODY)) == (
        b'{"type":"response.create","tools":[ {"a":1.0} ],"z":1e400,"a":"\xc3\xa9","input":[ {"b":"\\u00e9"} ]}'
    )


def test_a_delta_names_the_response_and_has_the_new_items_only() -> None:
    new = [b'{"c": 1.00}', b'"d"']
    assert frame.delta(members(BODY), 'resp_"1', new) == (
        b'{"type":"response.create","tools":[ {"a":1.0} ],"z":1e400,"a":"\xc3\xa9",'
        b'"previous_response_id":"resp_\\"1","input":[{"c": 1.00},"d"]}'
    )


def test_an_input_that_is_a_string_stays_one() -> None:
    assert frame.full({"input": b'"hi"'}) == b'{"type":"response.create","input":"hi"}'


# Digests instead of members


@pytest.mark.parametrize("name", ENVELOPE_MEMBERS)
def test_a_large_member_travels_whole_once_and_as_its_digest_from_then_on(name: str) -> None:
    sent = SentEnvelope()
    body = {"model": b'"m"', name: LARGE, "input": b"[]"}
    assert frame.full(body, sent) == frame.full(body)
    later = json.loads(frame.delta(body, "resp_1", [b"{}"], sent))
    assert name not in later
    assert later[ENVELOPE_FIELD] == {name: envelope_digest(LARGE)}
    assert later["model"] == "m"
    changed = {**body, name: LARGE.replace(b"x", b"y")}
    assert frame.full(changed, sent) == frame.full(changed)


def test_small_members_and_others_always_travel_whole() -> None:
    sent = SentEnvelope()
    border = b'"%b"' % (b"x" * (ENVELOPE_WORTHWHILE - 2))
    frame.full({"text": border, "input": b"[]"}, sent)
    assert border not in frame.full({"text": border, "input": b"[]"}, sent)
    body = {"tools": border.replace(b"x", b"", 1), "metadata": LARGE, "input": LARGE}
    for _ in range(3):
        assert frame.full(body, sent) == frame.full(body)


def test_each_link_has_its_own_memory_and_forgets_when_told() -> None:
    one, two = SentEnvelope(), SentEnvelope()
    body = {"tools": LARGE, "input": b"[]"}
    frame.full(body, one)
    assert frame.full(body, two) == frame.full(body)
    one.clear()
    assert frame.full(body, one) == frame.full(body)


def test_the_memory_is_bounded_and_keeps_what_was_used_last() -> None:
    sent = SentEnvelope()
    for number in range(64):
        sent.add(f"{number}", 1)
    sent.add("0", 1)
    sent.add("64", 1)
    assert "0" in sent
    assert "1" not in sent
    assert sum(f"{number}" in sent for number in range(65)) == 64


def test_the_memory_is_bounded_in_bytes_as_the_servers_is() -> None:
    sent = SentEnvelope()
    sent.add("beyond", ENVELOPE_BYTES + 1)
    assert "beyond" not in sent
    for name in ("a", "b", "a", "c"):
        sent.add(name, ENVELOPE_BYTES // 2)
    assert ["a" in sent, "b" in sent, "c" in sent] == [True, False, True]
    sent.clear()
    sent.add("d", ENVELOPE_BYTES)
    assert "d" in sent


def test_a_member_that_the_server_cannot_remember_never_travels_as_a_digest() -> None:
    sent = SentEnvelope()
    body = {"tools": b'"%b"' % (b"x" * ENVELOPE_BYTES), "input": b"[]"}
    for _ in range(2):
        assert frame.full(body, sent) == frame.full(body)


# Any body

_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
_NAMES = st.text(max_size=8) | st.sampled_from([*ENVELOPE_MEMBERS, *sorted(DROPPED), "store", "metadata"])
_BODIES = st.dictionaries(
    _NAMES.filter(lambda name: name not in {"type", ENVELOPE_FIELD, "input"}), _VALUES, max_size=7
)


@given(_BODIES, st.booleans(), st.lists(st.sampled_from(ENVELOPE_MEMBERS)))
def test_what_the_server_reads_is_what_the_client_sent(body: dict[str, Any], digests: object, large: list[str]) -> None:
    body = body | dict.fromkeys(large, "x" * ENVELOPE_WORTHWHILE) | {"input": [{"a": 1}, 2]}
    raw = members(json.dumps(body, ensure_ascii=False, indent=1).encode())
    sent = SentEnvelope() if digests else None
    known: dict[str, bytes] = {}
    for new in (None, [b"2"], None):
        out = frame.full(raw, sent) if new is None else frame.delta(raw, "resp_1", new, sent)
        read = members(out)
        known |= {envelope_digest(value): value for value in read.values()}
        for name, digest in json.loads(read.pop(ENVELOPE_FIELD, b"{}")).items():
            assert name not in read
            read[name] = known[digest]
        assert read.pop("type") == b'"response.create"'
        assert read.pop("previous_response_id", None) == (None if new is None else b'"resp_1"')
        assert read.pop("input") == (raw["input"] if new is None else b"[2]")
        assert read == {name: value for name, value in raw.items() if name not in DROPPED | {"input"}}
        assert json.loads(out)["type"] == "response.create"


@given(_BODIES)
def test_members_keep_the_order_of_the_body(body: dict[str, Any]) -> None:
    raw = members(json.dumps(body | {"input": []}).encode())
    kept = [name for name in raw if name not in DROPPED | {"input"}]
    assert list(members(frame.full(raw))) == ["type", *kept, "input"]
    assert list(members(frame.delta(raw, "r", []))) == ["type", *kept, "previous_response_id", "input"]


def test_the_digest_of_the_context_stands_beside_the_new_items() -> None:
    body = {"model": b'"m"', "input": b"[1]", CONTEXT_FIELD: b'"of the client"', ENVELOPE_FIELD: b"{}"}
    assert frame.delta(body, "resp_1", [b"1"], context="ab") == (
        b'{"type":"response.create","model":"m","previous_response_id":"resp_1","deltawire_context":"ab","input":[1]}'
    )
    assert members(frame.append(body, "r", [], now={}, before={}, context="ab"))[CONTEXT_FIELD] == b'"ab"'
    assert {CONTEXT_FIELD, ENVELOPE_FIELD}.isdisjoint(members(frame.full(body)))


# Frames that say what differs

KEYED = Keyed(b"k")
_REQUESTS = st.dictionaries(
    st.sampled_from(["model", "tools", "instructions", "user", "metadata", "stream", "background"]),
    st.sampled_from([b"1", b"1.0", b"null", b'{"a":1,"b":2}', b'{"b":2,"a":1}', LARGE]),
)


def appended(before: dict[str, bytes], now: dict[str, bytes], sent: SentEnvelope | None = None) -> dict[str, bytes]:
    asked = [frame.asked(body, KEYED) for body in (before, now)]
    return members(frame.append(now, 'resp_"1', [b'{"c": 1.00}', b'"d"'], before=asked[0], now=asked[1], sent=sent))


def test_a_frame_that_appends_names_the_response_and_has_the_new_items() -> None:
    body = members(BODY)
    assert appended(body, body) == {
        "type": b'"response.append"',
        "response_id": b'"resp_\\"1"',
        "input": b'[{"c": 1.00},"d"]',
    }


def test_what_it_asks_for_otherwise_travels_as_it_stands_and_what_it_asks_for_no_more_as_null() -> None:
    told = appended({"a": b"1", "b": b"2", "c": b"3"}, {"a": b"1", "b": b"2.0", "d": b"1.00"})
    assert {name: told[name] for name in "bcd"} == {"b": b"2.0", "c": b"null", "d": b"1.00"}
    assert "a" not in told


def test_what_it_asks_for_otherwise_travels_as_a_digest_where_the_link_has_carried_it() -> None:
    sent = SentEnvelope()
    frame.full({"instructions": LARGE, "input": b"[]"}, sent)
    told = appended({"instructions": b'"be"'}, {"instructions": LARGE}, sent)
    assert json.loads(told[ENVELOPE_FIELD]) == {"instructions": envelope_digest(LARGE)}


def test_how_a_request_is_asked_holds_no_content() -> None:
    assert {len(digest) for digest in frame.asked({"user": b'"secret"', "input": b"[]"}, KEYED).values()} == {16}


@given(_REQUESTS, _REQUESTS)
def test_the_earlier_request_and_what_is_said_to_differ_are_the_request(
    before: dict[str, bytes], now: dict[str, bytes]
) -> None:
    told = appended(before, now)
    changes = {name: raw for name, raw in told.items() if name not in {"type", "response_id", "input"}}
    whole = {name: raw for name, raw in (before | changes).items() if name not in DROPPED}
    assert {name: raw for name, raw in whole.items() if raw != b"null"} == {
        name: raw for name, raw in now.items() if name not in DROPPED and raw != b"null"
    }
    assert all(before.get(name) != raw for name, raw in changes.items() if name in now)
