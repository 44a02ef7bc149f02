from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.upstream.engines.prompts import PATCH, WEATHER, told
from upstream.engine import Delta, End, Part, Start, Stop, Usage
from upstream.engines.chunks import Chunks
from upstream.templates.functions import by_name
from wire.errors import ApiError
from wire.sse import Parser

_TOOLS = by_name((WEATHER, PATCH))
_USAGE = {
    "prompt_tokens": 30,
    "completion_tokens": 9,
    "prompt_tokens_details": {"cached_tokens": 20},
    "completion_tokens_details": {"reasoning_tokens": 4},
}


def _chunk(delta: dict[str, Any] | None = None, finish: str | None = None, **more: Any) -> bytes:
    return json.dumps({"choices": [{"index": 0, "delta": delta or {}, "finish_reason": finish}]} | more).encode()


def _played(*chunks: bytes) -> list[Part]:
    reader = Chunks(_TOOLS)
    return [part for chunk in chunks for part in reader.feed(chunk)] + reader.end()


def test_a_message_streams() -> None:
    assert _played(_chunk({"role": "assistant", "content": ""}), _chunk({"content": "yes"}), _chunk(finish="stop")) == [
        Start("message"),
        Delta("yes"),
        End(),
        Stop(),
    ]


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_reasoning_is_an_item_of_its_own(name: str) -> None:
    parts = _played(_chunk({name: "h"}), _chunk({name: "m"}), _chunk({"content": "yes"}), _chunk(finish="stop"))

    assert told(parts) == [("reasoning", "", "hm"), ("message", "", "yes")]


def test_reasoning_under_both_names_counts_once() -> None:
    parts = _played(_chunk({"reasoning_content": "h", "reasoning": "h"}, "stop"))

    assert told(parts) == [("reasoning", "", "h")]


def test_text_and_then_parallel_calls_are_items_in_that_order() -> None:
    calls = [
        {"index": 0, "id": "x", "function": {"name": "get_weather", "arguments": "{}"}},
        {"index": 1, "id": "y", "function": {"name": "apply_patch", "arguments": '{"input":"p"}'}},
    ]
    parts = _played(_chunk({"content": "I look."}), _chunk({"tool_calls": calls}), _chunk(finish="tool_calls"))

    assert told(parts) == [
        ("message", "", "I look."),
        ("function_call", "get_weather", "{}"),
        ("custom_tool_call", "apply_patch", "p"),
    ]


def test_text_after_a_call_is_another_message() -> None:
    call = {"index": 0, "function": {"name": "get_weather", "arguments": "{}"}}
    parts = _played(_chunk({"tool_calls": [call]}), _chunk({"content": "so"}), _chunk(finish="stop"))

    assert [kind for kind, _, _ in told(parts)] == ["function_call", "message"]


@pytest.mark.parametrize(
    ("finish", "reason"), [("length", "max_output_tokens"), ("content_filter", "content_filter"), ("stop", None)]
)
def test_the_end_says_whether_the_answer_is_complete(finish: str, reason: str | None) -> None:
    *parts, stop = _played(_chunk({"content": "ye"}), _chunk(finish=finish))

    assert isinstance(stop, Stop)
    assert stop.incomplete == reason
    assert (End() in parts) == (reason is None)


def test_usage_is_the_endpoints() -> None:
    stop = _played(_chunk({"content": "x"}, "stop"), json.dumps({"choices": [], "usage": _USAGE}).encode())[-1]

    assert stop == Stop(usage=Usage(30, 20, 9, 4))


@pytest.mark.parametrize(
    "told", [{"completion_tokens": -5}, {"prompt_tokens": 1e300}, {"prompt_tokens_details": {"cached_tokens": True}}]
)
def test_usage_that_cannot_be_true_is_not_taken(told: dict[str, Any]) -> None:
    stop = _played(_chunk({"content": "x"}, "stop"), json.dumps({"choices": [], "usage": _USAGE | told}).encode())[-1]

    assert stop == Stop()


def test_an_answer_that_came_whole_is_read_as_well() -> None:
    message = {"role": "assistant", "content": [{"type": "text", "text": "yes"}], "tool_calls": None}
    answer = {"choices": [{"message": message, "finish_reason": "stop"}], "usage": {"prompt_tokens": 3}}

    *parts, stop = _played(json.dumps(answer).encode())
    assert told([*parts, stop]) == [("message", "", "yes")]
    assert stop == Stop(usage=Usage(3))


def test_the_end_mark_is_enough_where_no_reason_is_given() -> None:
    assert _played(_chunk({"content": "x"}), b"[DONE]")[-1] == Stop()


@pytest.mark.parametrize("chunks", [(), (_chunk({"content": "x"}),), (b"{",), (b"3",)])
def test_a_stream_that_breaks_off_is_an_error(chunks: tuple[bytes, ...]) -> None:
    with pytest.raises(ApiError) as broken:
        _played(*chunks)

    assert broken.value.status == 502


def test_an_error_within_the_stream_is_that_error() -> None:
    with pytest.raises(ApiError) as failed:
        _played(b'{"error":{"code":429,"message":"a secret"}}')

    assert (failed.value.status, failed.value.message) == (429, "The engine takes no more requests for now.")


@given(st.data())
def test_where_the_network_cuts_the_stream_does_not_matter(data: st.DataObject) -> None:
    arguments = '{"city": "Zürich"}'
    chunks = [
        _chunk({"reasoning_content": "häm"}),
        *(_chunk({"content": piece}) for piece in ("Grüße ", "\n\n", "data: x")),
        _chunk({"tool_calls": [{"index": 0, "function": {"name": "get_weather", "arguments": arguments[:9]}}]}),
        _chunk({"tool_calls": [{"index": 0, "function": {"arguments": arguments[9:]}}]}),
        _chunk(finish="tool_calls"),
        b"[DONE]",
    ]
    stream = b"".join(b"data: " + chunk + b"\n\n" for chunk in chunks)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    parser, reader = Parser(), Chunks(_TOOLS)
    parts: list[Part] = []
    for begin, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        for event in parser.feed(stream[begin:end]):
            parts += reader.feed(event.data)

    assert parts + reader.end() == _played(*chunks)
    assert reader.done is True
