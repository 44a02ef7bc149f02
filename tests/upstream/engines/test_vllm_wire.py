from __future__ import annotations

import json
from typing import Any

import pytest

from tests.upstream.engines.prompts import prompt
from upstream.engine import Usage
from upstream.engines.chains import packed
from upstream.engines.token_answer import Piece
from upstream.engines.vllm_wire import Asked, Server, body, read, window_of
from wire.errors import ApiError

_TOKENS, _TEXT = Server(1000, generates=True), Server(1000, generates=False)
_ASKED = Asked((2,), "salt")


def _chunk(**choice: Any) -> bytes:
    return json.dumps({"choices": [{"index": 0, "finish_reason": None, "token_ids": []} | choice]}).encode()


def test_a_prompt_goes_as_tokens_with_its_salt_and_stops() -> None:
    given = prompt("hi", max_output_tokens=9, temperature=0.5, top_p=0.9)
    sampling = {"max_tokens": 9, "temperature": 0.5, "top_p": 0.9, "stop_token_ids": [2]}
    common = {"stream": True, "stream_options": {"include_usage": True}, "cache_salt": "salt"}

    assert body(_TOKENS, [5, 6], given, _ASKED) == {
        "token_ids": [5, 6],
        "sampling_params": sampling | {"detokenize": False},
        **common,
    }
    assert body(_TEXT, [5, 6], given, _ASKED) == {"prompt": [5, 6], "return_token_ids": True} | common | sampling


def test_what_the_client_left_open_is_left_to_the_server_but_for_the_limit_that_would_be_16() -> None:
    assert body(_TOKENS, [5], prompt("hi"), _ASKED)["sampling_params"] == {"stop_token_ids": [2], "detokenize": False}
    assert body(_TEXT, [5], prompt("hi"), _ASKED)["max_tokens"] == 1000


def test_no_more_is_asked_for_than_the_model_can_hold() -> None:
    assert body(_TEXT, [5], prompt("hi", max_output_tokens=5000), _ASKED)["max_tokens"] == 1000


def test_warming_writes_one_token_and_does_not_stream() -> None:
    made = body(_TEXT, [5], prompt("hi", max_output_tokens=9), _ASKED, warms=True)

    assert (made["max_tokens"], made["stream"]) == (1, False)
    assert "stream_options" not in made


@pytest.mark.parametrize(
    ("wanted", "structured"),
    [
        ({"type": "json_schema", "schema": {"type": "array"}}, {"json": {"type": "array"}}),
        ({"type": "json_object"}, {"json_object": True}),
        ({"type": "text"}, None),
    ],
)
def test_the_format_of_the_answer_is_enforced_by_the_engine(wanted: dict[str, Any], structured: object) -> None:
    given = prompt("hi", text={"format": wanted})

    assert body(_TEXT, [5], given, _ASKED).get("structured_outputs") == structured
    assert body(_TOKENS, [5], given, _ASKED)["sampling_params"].get("structured_outputs") == structured


def test_a_model_is_named_only_where_one_is_set() -> None:
    assert body(_TOKENS, [5], prompt("hi"), Asked((2,), "salt", "adapter"))["model"] == "adapter"
    assert "model" not in body(_TOKENS, [5], prompt("hi"), _ASKED)


def test_the_window_is_that_of_the_model_that_is_asked() -> None:
    models = {"data": [{"id": "a", "max_model_len": 10}, {"id": "b", "max_model_len": 20}]}

    assert [window_of(models, name) for name in ("", "b", "c")] == [10, 20, 10]


@pytest.mark.parametrize("models", [{}, {"data": []}, {"data": [3]}, {"data": [{"id": "a"}]}])
def test_without_a_window_the_server_is_not_understood(models: dict[str, Any]) -> None:
    with pytest.raises(ApiError):
        window_of(models, "")


@pytest.mark.parametrize(
    ("data", "piece"),
    [
        (_chunk(token_ids=[1, 2]), Piece(packed([1, 2]))),
        (_chunk(token_ids=[3], finish_reason="stop", stop_reason=3), Piece(packed([3]), "stop")),
        (_chunk(finish_reason="length"), Piece(packed([]), "length")),
        (_chunk(token_ids=None, finish_reason="repetition", text=""), Piece(packed([]), "stop")),
        (b"[DONE]", Piece()),
        (b'{"choices": []}', Piece()),
    ],
)
def test_events_are_read(data: bytes, piece: Piece) -> None:
    assert read(data) == piece


def test_usage_comes_without_a_choice() -> None:
    usage = {"prompt_tokens": 30, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 16}}

    assert read(json.dumps({"choices": [], "usage": usage}).encode()).usage == Usage(30, 16, 4)
    assert read(json.dumps({"choices": [], "usage": usage | {"prompt_tokens_details": None}}).encode()).usage == Usage(
        30, 0, 4
    )


@pytest.mark.parametrize(
    "data", [b"{", b"3", _chunk(finish_reason="abort"), _chunk(token_ids=None, text="Hi"), _chunk(token_ids=[-1])]
)
def test_what_cannot_be_used_is_an_answer_that_broke_off(data: bytes) -> None:
    with pytest.raises(ApiError) as broken:
        read(data)
    assert broken.value.status == 502


def test_an_error_within_the_stream_is_that_error() -> None:
    error = {"message": "EngineCore died", "type": "InternalServerError", "param": None, "code": 500}
    with pytest.raises(ApiError) as failed:
        read(json.dumps({"error": error}).encode())
    assert failed.value.status == 502
