from __future__ import annotations

import json
from typing import Any

import pytest

from tests.upstream.engines.prompts import prompt
from upstream.engine import Usage
from upstream.engines.chains import unpacked
from upstream.engines.sglang_wire import Outputs, body, closing, opening
from upstream.engines.token_answer import Piece
from wire.errors import ApiError


def _event(ids: list[int], written: int, finish: dict[str, Any] | None = None) -> bytes:
    counts = {"prompt_tokens": 30, "cached_tokens": 20, "completion_tokens": written}
    return json.dumps({"text": "x", "output_ids": ids, "meta_info": {"finish_reason": finish} | counts}).encode()


def _made(given: Any, **more: Any) -> dict[str, Any]:
    asked: dict[str, Any] = {"stops": (2,), "salt": "salt"}
    return body([5, 6], given, **asked | more)


def test_a_prompt_goes_as_tokens_with_its_salt_and_stops() -> None:
    limits = {"max_new_tokens": 9, "stop_token_ids": [2], "skip_special_tokens": False}

    assert _made(prompt("hi", max_output_tokens=9, temperature=0.5, top_p=0.9)) == {
        "input_ids": [5, 6],
        "stream": True,
        "cache_salt": "salt",
        "sampling_params": limits | {"temperature": 0.5, "top_p": 0.9},
    }


def test_without_a_limit_it_is_named_as_none_since_the_server_has_one_of_its_own() -> None:
    assert _made(prompt("hi"))["sampling_params"]["max_new_tokens"] is None


def test_warming_writes_nothing() -> None:
    made = _made(prompt("hi", max_output_tokens=9), warms=True)

    assert (made["sampling_params"]["max_new_tokens"], made["stream"]) == (0, False)


@pytest.mark.parametrize(
    ("wanted", "schema"),
    [
        ({"type": "json_schema", "schema": {"type": "array"}}, {"type": "array"}),
        ({"type": "json_object"}, {"type": "object"}),
        ({"type": "text"}, None),
    ],
)
def test_the_format_of_the_answer_is_enforced_by_the_engine(wanted: dict[str, Any], schema: object) -> None:
    given = prompt("hi", text={"format": wanted})

    assert json.loads(_made(given)["sampling_params"].get("json_schema", "null")) == schema


def test_a_thread_is_begun_and_ended_by_its_id() -> None:
    assert opening("k")["session_id"] == closing("k")["session_id"] == "k"
    assert opening("k")["timeout"] > 0


@pytest.mark.parametrize("events", [[[1, 2], [1, 2, 3], [1, 2, 3]], [[1, 2], [3], []]])
def test_both_kinds_of_streams_are_read(events: list[list[int]]) -> None:
    outputs = Outputs()
    pieces = [outputs.read(_event(ids, min(2 + place, 3))) for place, ids in enumerate(events)]

    assert [unpacked(piece.tokens) for piece in pieces] == [[1, 2], [3], []]
    assert pieces[-1].usage == Usage(30, 20, 3)


def test_tokens_that_came_after_the_count_was_taken_are_read_once() -> None:
    outputs = Outputs()

    assert unpacked(outputs.read(_event([1, 2, 3], 2)).tokens) == [1, 2, 3]
    assert outputs.read(_event([1, 2, 3], 3)).tokens == b""


@pytest.mark.parametrize(
    ("finish", "told"), [({"type": "stop", "matched": 2}, "stop"), ({"type": "length", "length": 1}, "length")]
)
def test_the_end_is_told(finish: dict[str, Any], told: str) -> None:
    assert Outputs().read(_event([1], 1, finish)).finish == told
    assert Outputs().read(b"[DONE]") == Piece()


@pytest.mark.parametrize(
    ("status", "expected"),
    [(400, (400, None)), (503, (503, "server_is_overloaded")), (500, (502, None)), (None, (502, None))],
)
def test_what_the_engine_refuses_is_that_error(status: int | None, expected: tuple[int, str | None]) -> None:
    finish = {"type": "abort", "message": "why", "status_code": status, "err_type": None}
    with pytest.raises(ApiError) as refused:
        Outputs().read(_event([], 0, finish))
    assert (refused.value.status, refused.value.code) == expected


def test_an_error_within_the_stream_is_that_error() -> None:
    message = "The input (9 tokens) is longer than the model's context length (8 tokens)."
    error = {"message": message, "type": "invalid_request_error", "code": 400, "retryable": False}
    with pytest.raises(ApiError) as refused:
        Outputs().read(json.dumps({"error": error}).encode())
    assert (refused.value.status, refused.value.code) == (400, "context_length_exceeded")


@pytest.mark.parametrize("data", [b"{", b"3", b"{}", b'{"meta_info": {}, "output_ids": null}'])
def test_what_cannot_be_read_is_an_answer_that_broke_off(data: bytes) -> None:
    with pytest.raises(ApiError) as broken:
        Outputs().read(data)
    assert broken.value.status == 502
