from __future__ import annotations

import json

import pytest

from upstream.engines.failures import broken_off, from_answer, told, unreachable
from wire.errors import ApiError


def _body(message: str = "what it says", code: str | None = None) -> bytes:
    return json.dumps({"error": {"message": message, "code": code}}).encode()


def test_too_many_requests_say_when_to_come_again() -> None:
    error = from_answer(429, {"retry-after": "7", "x-other": "1"}, _body("tenant abc"))

    assert (error.status, error.type, error.code) == (429, "rate_limit_error", "rate_limit_exceeded")
    assert error.headers == {"retry-after": "7"}
    assert "abc" not in error.message


@pytest.mark.parametrize("status", [400, 413, 422])
def test_a_bad_request_is_explained_in_the_engines_words(status: int) -> None:
    error = from_answer(status, {}, _body("too long", "context_length_exceeded"))

    assert (error.status, error.message, error.code) == (400, "too long", "context_length_exceeded")
    assert error.type == "invalid_request_error"


@pytest.mark.parametrize(
    "message",
    [
        "Input length (9) exceeds model's maximum context length (8).",
        "The input (9 tokens) is longer than the model's context length (8 tokens).",
    ],
)
def test_a_prompt_that_does_not_fit_is_known_by_what_is_said_of_it(message: str) -> None:
    assert from_answer(400, {}, _body(message)).code == "context_length_exceeded"


def test_long_words_are_cut_and_bodies_of_another_form_are_survived() -> None:
    assert len(from_answer(400, {}, _body("x" * 5000)).message) == 1000
    for body in (b"", b"<html>", b"[]", b'{"detail": 3}'):
        assert from_answer(400, {}, body).status == 400


def test_an_unknown_model_is_the_clients_to_change() -> None:
    error = from_answer(404, {}, b"")

    assert (error.status, error.code, error.param) == (404, "model_not_found", "model")


@pytest.mark.parametrize("status", [503, 529])
def test_an_overloaded_engine_is_said_to_be_so(status: int) -> None:
    error = from_answer(status, {"retry-after": "2"}, b"")

    assert (error.status, error.code, error.headers) == (503, "server_is_overloaded", {"retry-after": "2"})


@pytest.mark.parametrize("status", [301, 401, 403, 500, 502, 504])
def test_what_only_the_operator_can_change_is_a_server_error_without_the_engines_words(status: int) -> None:
    error = from_answer(status, {}, _body("key sk-123 is wrong"))

    assert (error.status, error.type) == (502, "server_error")
    assert "sk-123" not in error.message


@pytest.mark.parametrize(
    ("chunk", "status"),
    [
        ({"error": {"code": 400, "message": "m"}}, 400),
        ({"error": {"code": "rate_limit_exceeded", "message": "m"}}, 429),
        ({"error": {"type": "invalid_request_error", "message": "m"}}, 400),
        ({"error": "broken"}, 502),
    ],
)
def test_an_error_in_a_stream_has_the_status_that_it_tells(chunk: dict[str, object], status: int) -> None:
    with pytest.raises(ApiError) as raised:
        told(json.dumps(chunk).encode())
    assert raised.value.status == status


@pytest.mark.parametrize("data", [b"", b"<html>", b"[]", b"3"])
def test_an_event_that_is_no_object_broke_off(data: bytes) -> None:
    with pytest.raises(ApiError) as raised:
        told(data)
    assert (raised.value.status, raised.value.message) == (broken_off().status, broken_off().message)


def test_no_answer_and_half_an_answer_are_server_errors() -> None:
    assert (unreachable().status, unreachable().code) == (503, "server_is_overloaded")
    assert (broken_off().status, broken_off().type) == (502, "server_error")
