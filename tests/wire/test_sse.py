"""Event streams: written exactly, and read the same however the bytes arrive."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai._streaming import SSEDecoder

from wire.sse import COMMENT, CONTENT_TYPE, DONE, Parser, SseEvent, encode

ENDS = st.sampled_from(["\n", "\r\n", "\r"])
LINES = st.sampled_from(
    [
        *("data: a", "data:b", "data:  c", "data", "data:", "event: x", "event:", "event: y z", ": note", ":", "id: 1"),
        *("retry: 5", "", "", "datax: 1", " data: no", "data: é\u2028", "event: a: b"),
    ]
)
STREAMS = st.lists(st.tuples(LINES, ENDS).map("".join), max_size=12).map(lambda lines: "".join(lines).encode())


def parsed(stream: bytes) -> list[SseEvent]:
    return Parser().feed(stream)


def test_an_event_is_its_type_its_data_and_an_empty_line() -> None:
    assert encode("response.created", b'{"type":"response.created"}') == (
        b'event: response.created\ndata: {"type":"response.created"}\n\n'
    )


@pytest.mark.parametrize("raw", [b'{\n "a": 1,\r\n\t"b": "\\n"\r}', b'{"a":1,"b":"\\n"}'])
def test_data_is_one_line_that_means_the_same(raw: bytes) -> None:
    written = encode("x", raw)
    assert written.count(b"\n") == 3
    assert b"\r" not in written
    (event,) = parsed(written)
    assert json.loads(event.data) == json.loads(raw)


def test_data_without_newlines_keeps_its_bytes() -> None:
    data = '{"a": "é\u2028\u0085", "b" :1.00}'.encode()
    assert encode("x", data) == b"event: x\ndata: " + data + b"\n\n"
    assert parsed(encode("x", data)) == [SseEvent("x", data)]


@given(st.lists(st.tuples(st.sampled_from(["a", "response.done"]), st.dictionaries(st.text(max_size=3), st.text()))))
def test_what_is_written_is_read_back(events: list[tuple[str, dict[str, str]]]) -> None:
    stream = b"".join(encode(kind, json.dumps(value).encode()) for kind, value in events)
    assert [(event.event, json.loads(event.data)) for event in parsed(stream)] == events


def test_a_keep_alive_is_a_comment_line_without_an_empty_line_and_is_no_event() -> None:
    assert COMMENT.startswith(b":")
    assert COMMENT.count(b"\n") == 1
    assert COMMENT.endswith(b"\n")
    event = encode("x", b"1")
    assert parsed(COMMENT + event + COMMENT + event) == [SseEvent("x", b"1")] * 2


@given(st.lists(st.integers(0, 2), min_size=1, max_size=6), st.integers(1, 40))
def test_no_keep_alive_shows_in_what_the_sdk_reads(comments: list[int], size: int) -> None:
    stream = b"".join(COMMENT * count + encode("a", b'{"type":"a"}') for count in comments) + COMMENT
    chunks = (stream[at : at + size] for at in range(0, len(stream), size))
    assert [(event.event, event.data) for event in SSEDecoder().iter_bytes(chunks)] == [
        ("a", '{"type":"a"}') for _ in comments
    ]


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        (b"data: a\n\n", [SseEvent("", b"a")]),
        (b"data:a\n\n", [SseEvent("", b"a")]),
        (b"data:  a\n\n", [SseEvent("", b" a")]),
        (b"data: a\ndata: b\n\n", [SseEvent("", b"a\nb")]),
        (b"data\n\n", [SseEvent("", b"")]),
        (b"event: x\n\ndata: a\n\n", [SseEvent("", b"a")]),
        (b"event: x\nevent: y\ndata: a\n\n", [SseEvent("y", b"a")]),
        (b"data: a\nevent: x\n\n", [SseEvent("x", b"a")]),
        (b"event: x\ndata: a\n\ndata: b\n\n", [SseEvent("x", b"a"), SseEvent("", b"b")]),
        (b": data: a\n\n", []),
        (b"id: 1\nretry: 2\nnonsense\n\n", []),
        (b"data: a\n", []),
        (b"\n\n\n", []),
        (b"data: [DONE]\n\n", [SseEvent("", b"[DONE]")]),
        (b"event: \xff\ndata: \xff\n\n", [SseEvent("\N{REPLACEMENT CHARACTER}", b"\xff")]),
        (b"data: a\r\n\r\n", [SseEvent("", b"a")]),
        (b"data: a\r\r", [SseEvent("", b"a")]),
        (b"data: a\rdata: b\n\r\n", [SseEvent("", b"a\nb")]),
    ],
)
def test_streams_are_read_as_the_standard_says(stream: bytes, events: list[SseEvent]) -> None:
    assert parsed(stream) == events


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_an_event_is_there_with_the_byte_that_ends_its_line(end: bytes) -> None:
    parser = Parser()
    assert parser.feed(b"data: a" + end + end[:-1]) == ([SseEvent("", b"a")] if end == b"\r\n" else [])
    assert parser.feed(end[-1:]) == ([] if end == b"\r\n" else [SseEvent("", b"a")])
    assert parser.feed(b"data: b" + end + end) == [SseEvent("", b"b")]


@given(STREAMS)
def test_byte_by_byte_is_the_same_as_whole(stream: bytes) -> None:
    parser = Parser()
    assert [event for byte in stream for event in parser.feed(bytes([byte]))] == parsed(stream)


@given(STREAMS, st.lists(st.integers(0, 100), max_size=6))
def test_chunk_borders_do_not_matter(stream: bytes, cuts: list[int]) -> None:
    parser, borders = Parser(), [0, *sorted(cuts), len(stream)]
    pieces = [stream[start:end] for start, end in pairwise(borders)]
    assert [event for piece in pieces for event in parser.feed(piece)] == parsed(stream)


@given(STREAMS)
def test_the_kind_of_line_end_does_not_matter(stream: bytes) -> None:
    plain = stream.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    assert (
        parsed(plain) == parsed(stream) == parsed(plain.replace(b"\n", b"\r\n")) == parsed(plain.replace(b"\n", b"\r"))
    )


def test_the_content_type_is_the_one_of_event_streams() -> None:
    assert CONTENT_TYPE.startswith("text/event-stream")


def test_the_end_that_some_send_is_an_event_without_json() -> None:
    assert Parser().feed(DONE) == [SseEvent("", b"[DONE]")]
