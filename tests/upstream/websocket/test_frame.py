from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upstream.websocket.envelope_cache import EnvelopeCache
from upstream.websocket.frame import Frame, is_text, not_text, read_frame, tagged
from wire.extensions import envelope_digest

_NAMES = st.text("abcXYZ019_.-", min_size=1, max_size=256)


def _read(*, lanes: bool = True, envelopes: EnvelopeCache | None = None, **values: Any) -> tuple[str | None, Frame]:
    return read_frame(json.dumps({"type": "response.create"} | values).encode(), envelopes, lanes=lanes)


def test_a_frame_is_its_members_without_what_only_the_lane_needs() -> None:
    name, frame = _read(stream_id="main", model="m", previous_response_id="resp_1")

    assert name == "main"
    assert frame.members == {"model": b'"m"', "previous_response_id": b'"resp_1"'}
    assert frame.parent == "resp_1"
    assert frame.refusal is None
    assert frame.size > 60


@pytest.mark.parametrize("values", [{}, {"stream_id": None}])
def test_without_a_name_it_is_of_the_default_lane(values: dict[str, Any]) -> None:
    assert _read(**values)[0] is None


@given(_NAMES)
def test_letters_digits_and_three_signs_are_a_name(name: str) -> None:
    assert _read(stream_id=name)[0] == name


@pytest.mark.parametrize("value", ["", "a" * 257, "a b", "ä", "a/b", "a\n", 3, ["a"], {}, True, "\u0000"])
def test_anything_else_is_refused_in_the_words_of_the_api(value: Any) -> None:
    name, frame = _read(stream_id=value, previous_response_id="resp_1")

    assert name is None
    assert frame.refusal is not None
    assert frame.parent is None, "nobody knows which lane this would have continued"
    assert json.loads(frame.refusal.ws_frame()) == {
        "type": "error",
        "status": 400,
        "error": {
            "type": "invalid_request_error",
            "code": "invalid_stream_id",
            "message": (
                "The 'stream_id' field must be a non-empty string with at most 256 characters and may only contain "
                "letters, numbers, underscores, hyphens, and periods."
            ),
            "param": "stream_id",
        },
    }


def test_a_name_has_at_most_256_characters() -> None:
    assert _read(stream_id="a" * 256)[0] == "a" * 256
    assert _read(stream_id="a" * 257)[1].refusal is not None


def test_a_name_is_the_same_however_it_is_escaped() -> None:
    assert read_frame(rb'{"type":"response.create","stream_id":"m\u0061in"}', None, lanes=True)[0] == "main"


def test_without_lanes_a_name_stays_among_the_members() -> None:
    name, frame = _read(lanes=False, stream_id="main")

    assert name is None
    assert frame.members["stream_id"] == b'"main"'


@pytest.mark.parametrize(
    ("data", "param"),
    [
        (b"not json", None),
        (b"[]", None),
        (b"\xff", None),
        (b'{"a":1,"a":2}', None),
        (b"{}", "type"),
        (b'{"type":"response.append"}', "type"),
        (b'{"type":3}', "type"),
        (b'{"type":"response.create","background":true}', "background"),
        (b'{"type":"response.create","deltawire_envelope":{}}', "deltawire_envelope"),
    ],
)
def test_what_cannot_run_is_a_frame_with_its_refusal(data: bytes, param: str | None) -> None:
    name, frame = read_frame(data, None, lanes=True)

    assert name is None
    assert frame.refusal is not None
    assert (frame.refusal.status, frame.refusal.param) == (400, param)
    assert frame.members == {}


def test_a_refused_frame_still_says_its_lane_and_its_parent() -> None:
    name, frame = _read(stream_id="a", previous_response_id="resp_1", background=True)

    assert (name, frame.parent) == ("a", "resp_1")
    assert frame.refusal is not None


@given(st.binary(max_size=60))
def test_nothing_that_comes_raises(data: bytes) -> None:
    read_frame(data, None, lanes=True)
    assert is_text(data) == (data.decode(errors="replace").encode() == data)


def test_a_member_is_known_as_soon_as_its_frame_has_come() -> None:
    cache = EnvelopeCache(entries=4, limit=10_000)
    tools = json.dumps([{"type": "function", "name": "f", "description": "d" * 300}])
    _read(envelopes=cache, stream_id="a", tools=json.loads(tools))
    _, frame = _read(envelopes=cache, stream_id="b", deltawire_envelope={"tools": envelope_digest(tools.encode())})

    assert frame.refusal is None
    assert frame.members["tools"] == tools.encode()


def test_a_binary_message_is_refused() -> None:
    refusal = not_text().refusal

    assert refusal is not None
    assert refusal.status == 400


@given(_NAMES, st.dictionaries(st.text(), st.integers()))
def test_events_of_a_named_lane_say_which_and_nothing_else_changes(name: str, members: dict[str, int]) -> None:
    event = {"type": "response.created"} | members
    data = json.dumps(event).encode()

    assert tagged(data, None) == data
    assert json.loads(tagged(data, name)) == event | {"stream_id": name}


# Frames that append


def _append(*, appends: bool = True, **values: Any) -> Frame:
    return read_frame(json.dumps({"type": "response.append"} | values).encode(), None, lanes=True, appends=appends)[1]


def test_a_frame_that_appends_is_what_differs_and_the_response_it_goes_on_from() -> None:
    frame = _append(stream_id="main", response_id="resp_1", input=[], user=None)

    assert frame == Frame({"input": b"[]", "user": b"null"}, "resp_1", resumes=True, size=frame.size)


@pytest.mark.parametrize(
    ("values", "param", "parent"),
    [
        ({}, "response_id", None),
        ({"response_id": 3}, "response_id", None),
        ({"response_id": None}, "response_id", None),
        ({"response_id": "resp_1", "background": True}, "background", "resp_1"),
        ({"response_id": "resp_1", "deltawire_envelope": {}}, "deltawire_envelope", "resp_1"),
    ],
)
def test_one_that_cannot_run_says_why(values: dict[str, Any], param: str, parent: str | None) -> None:
    frame = _append(**values)

    assert frame.refusal is not None
    assert (frame.refusal.param, frame.parent) == (param, parent)


def test_where_it_is_not_offered_it_is_of_an_unknown_type() -> None:
    frame = _append(appends=False, response_id="resp_1")

    assert frame.refusal is not None
    assert (frame.refusal.param, frame.parent, frame.resumes) == ("type", None, False)


def test_digests_stand_for_members_that_differ_as_well() -> None:
    envelopes = EnvelopeCache(entries=4, limit=10_000)
    long = json.dumps("x" * 300)
    _read(envelopes=envelopes, instructions=json.loads(long))
    values: dict[str, Any] = {"type": "response.append", "response_id": "resp_1"}
    values |= {"deltawire_envelope": {"instructions": envelope_digest(long.encode())}}
    _, frame = read_frame(json.dumps(values).encode(), envelopes, lanes=True, appends=True)

    assert frame.members == {"instructions": long.encode()}
