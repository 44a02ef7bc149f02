from __future__ import annotations

import json
from typing import Any

import pytest

from tests.upstream.engines.prompts import WEATHER, told
from upstream.engine import End, Part, Stop, Usage
from upstream.engines.chains import packed
from upstream.engines.completion import Completion
from upstream.templates.functions import by_name
from wire.errors import ApiError

_LAST = {
    "content": "",
    "stop": True,
    "stop_type": "eos",
    "tokens_evaluated": 30,
    "tokens_predicted": 4,
    "timings": {"cache_n": 20},
}


def _event(content: str, *tokens: int) -> dict[str, Any]:
    return {"content": content, "tokens": list(tokens), "stop": False}


def _played(*events: dict[str, Any]) -> tuple[Completion, list[Part]]:
    reader = Completion(by_name([WEATHER]))
    parts = [part for event in events for part in reader.feed(json.dumps(event).encode())]
    return reader, parts + list(reader.end())


def test_an_answer_is_read_with_its_tokens_and_the_engines_count() -> None:
    reader, parts = _played(_event("Hel", 1), _event("lo", 2, 3), _LAST)

    assert told(parts) == [("message", "", "Hello")]
    assert parts[-1] == Stop(usage=Usage(30, 20, 4))
    assert (reader.text, bytes(reader.tokens)) == ("Hello", packed([1, 2, 3]))


def test_numbers_that_cannot_be_true_are_not_taken() -> None:
    assert _played(_event("x", 1), _LAST | {"tokens_predicted": -4})[1][-1] == Stop()
    with pytest.raises(ApiError):
        _played(_event("x", -1), _LAST)


def test_tags_are_read_as_items_and_kept_as_they_were_written() -> None:
    text = '<think>\nhm\n</think>\n\n<tool_call>\n{"name": "get_weather", "arguments": {}}\n</tool_call>'
    reader, parts = _played(*map(_event, text), _LAST)

    assert told(parts) == [("reasoning", "", "hm"), ("function_call", "get_weather", "{}")]
    assert reader.text == text
    stop = parts[-1]
    assert isinstance(stop, Stop)
    assert stop.usage is not None
    assert stop.usage.reasoning_tokens > 0


def test_a_limit_makes_the_answer_incomplete() -> None:
    _, parts = _played(_event("Hel", 1), _LAST | {"stop_type": "limit"})

    assert isinstance(parts[-1], Stop)
    assert parts[-1].incomplete == "max_output_tokens"
    assert End() not in parts


@pytest.mark.parametrize("data", [b"{", b"3", b'{"content": "x"}'])
def test_a_stream_that_breaks_off_is_an_error(data: bytes) -> None:
    reader = Completion({})
    with pytest.raises(ApiError) as broken:
        list(reader.feed(data)) + list(reader.end())
    assert broken.value.status == 502


def test_an_error_within_the_stream_is_that_error() -> None:
    error = {"error": {"code": 400, "message": "too long", "type": "exceed_context_size_error"}}
    with pytest.raises(ApiError) as failed:
        _played(error)
    assert (failed.value.status, failed.value.code) == (400, "context_length_exceeded")
