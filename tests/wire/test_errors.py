"""Errors: every shape in which services send them becomes one value, and every shape in which they leave."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.responses.response_error_event import ResponseErrorEvent

from wire.errors import (
    CONNECTION_LIMIT,
    PREVIOUS_NOT_FOUND,
    STATUS_BY_NAME,
    ApiError,
    bare,
    connection_limit,
    from_frame,
    invalid_request,
    invalid_stream_id,
    is_about_previous,
    is_connection_limit,
    is_previous_not_found,
    previous_not_found,
    server_error,
    stream_limit,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=4,
)
NAMES = st.sampled_from(
    ["type", "status", "status_code", "error", "code", "message", "param", "headers", "detail", "resets_in_seconds"]
)
FRAMES = st.dictionaries(NAMES, JSON | st.dictionaries(NAMES, JSON, max_size=6), max_size=6)


def facts(error: ApiError) -> dict[str, Any]:
    return {name: getattr(error, name) for name in ("status", "message", "type", "code", "param", "headers", "details")}


def error_of(**changes: Any) -> ApiError:
    made: dict[str, Any] = {"status": 429, "message": "slow", "type": "rate_limit_error", "code": "slow_down"}
    return ApiError(**made | changes)


def test_an_http_body_nests_the_error_and_always_has_the_four_members() -> None:
    assert json.loads(error_of(param="input").http_body()) == {
        "error": {"message": "slow", "type": "rate_limit_error", "param": "input", "code": "slow_down"}
    }
    assert json.loads(ApiError(400, "no").http_body()) == {
        "error": {"message": "no", "type": "invalid_request_error", "param": None, "code": None}
    }


def test_headers_stand_in_no_http_body() -> None:
    assert b"retry-after" not in error_of(headers={"retry-after": "3"}).http_body()


def test_a_frame_always_says_its_status_and_has_headers_in_both_places_where_readers_look() -> None:
    frame = json.loads(error_of(headers={"retry-after": "3"}).ws_frame("lane"))
    nested = {"message": "slow", "type": "rate_limit_error", "param": None, "code": "slow_down"}
    assert frame == {
        "type": "error",
        "status": 429,
        "stream_id": "lane",
        "error": nested | {"headers": {"retry-after": "3"}},
        "headers": {"retry-after": "3"},
    }
    assert json.loads(error_of().ws_frame()) == {"type": "error", "status": 429, "error": nested}


def test_an_event_of_a_stream_is_flat_as_the_sdk_types_have_it() -> None:
    data = json.loads(error_of(param="input").sse_data(7))
    assert data == {"type": "error", "code": "slow_down", "message": "slow", "param": "input", "sequence_number": 7}
    assert ResponseErrorEvent.model_validate(data, strict=True).message == "slow"


@given(
    st.builds(
        ApiError,
        status=st.integers(400, 599),
        message=st.text(min_size=1),
        type=st.text(min_size=1),
        code=st.none() | st.text(min_size=1),
        param=st.none() | st.text(min_size=1),
        headers=st.dictionaries(st.sampled_from(["retry-after", "x-a"]), st.text(max_size=3), max_size=2),
        details=st.dictionaries(st.sampled_from(["plan_type", "message", "misalignment"]), st.text(), max_size=2),
    )
)
def test_what_is_written_as_a_frame_is_read_back(error: ApiError) -> None:
    read = from_frame(json.loads(error.ws_frame("lane")))
    details = {name: value for name, value in error.details.items() if name != "message"}
    assert facts(read) == facts(error) | {"details": details}


@pytest.mark.parametrize(
    ("frame", "expected"),
    [
        pytest.param(
            {
                "type": "error",
                "status": 400,
                "stream_id": "main",
                "error": {"type": "invalid_request_error", "code": "x", "message": "m", "param": "p"},
            },
            {"status": 400, "type": "invalid_request_error", "code": "x", "message": "m", "param": "p"},
            id="as documented",
        ),
        pytest.param(
            {"type": "error", "error": {"type": "invalid_request_error", "code": CONNECTION_LIMIT, "message": "m"}},
            {"status": 400, "code": CONNECTION_LIMIT},
            id="no status",
        ),
        pytest.param(
            {"type": "error", "code": "rate_limit_exceeded", "message": "m", "param": None, "sequence_number": 3},
            {"status": 429, "type": "invalid_request_error", "code": "rate_limit_exceeded", "message": "m"},
            id="flat",
        ),
        pytest.param(
            {"error": {"message": "m", "type": "server_error"}}, {"status": 500, "message": "m"}, id="HTTP body"
        ),
        pytest.param({"type": "error", "status_code": 503, "error": {}}, {"status": 503}, id="status_code"),
        pytest.param({"type": "error", "error": {"status": 409, "message": "m"}}, {"status": 409}, id="status inside"),
        pytest.param({"status": 200, "error": {"code": "model_not_found"}}, {"status": 404}, id="status of success"),
        pytest.param({"status": True, "error": {}}, {"status": 500}, id="status of no number"),
        pytest.param({"status": "429", "error": {}}, {"status": 500}, id="status of text"),
        pytest.param(
            {"error": "broken"}, {"status": 500, "message": "broken", "type": "server_error"}, id="error text"
        ),
        pytest.param({"detail": "Not Found", "status": 404}, {"status": 404, "message": "Not Found"}, id="FastAPI"),
        pytest.param({}, {"status": 500, "type": "server_error"}, id="nothing"),
        pytest.param(
            {"error": {"code": 7, "type": [], "message": {}}}, {"status": 500, "code": None}, id="wrong types"
        ),
        pytest.param(
            {"status": 429, "error": {"type": "usage_limit_reached", "message": "m", "plan_type": "pro"}},
            {"status": 429, "type": "usage_limit_reached", "details": {"plan_type": "pro"}},
            id="further members",
        ),
        pytest.param(
            {"status": 429, "headers": {"X-A": "1", "b": 2}, "error": {"headers": {"x-a": "3", "c": True, "d": None}}},
            {"headers": {"x-a": "3", "b": "2", "c": "true"}},
            id="headers in both places",
        ),
    ],
)
def test_an_error_is_read_from_every_shape(frame: dict[str, Any], expected: dict[str, Any]) -> None:
    assert facts(from_frame(frame)) == facts(from_frame(frame)) | expected


@pytest.mark.parametrize("name", STATUS_BY_NAME)
@pytest.mark.parametrize("member", ["code", "type"])
def test_without_a_status_the_code_or_the_type_tells_it(name: str, member: str) -> None:
    assert from_frame({"type": "error", "error": {member: name, "message": "m"}}).status == STATUS_BY_NAME[name]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 413, 429, 500, 503])
def test_every_kind_of_failure_can_be_named(status: int) -> None:
    assert status in STATUS_BY_NAME.values()


def test_the_code_counts_before_the_type() -> None:
    error = {"type": "invalid_request_error", "code": "rate_limit_exceeded"}
    assert from_frame({"error": error}).status == 429


@pytest.mark.parametrize(
    ("status", "error", "header"),
    [
        (429, {"resets_in_seconds": 7}, "7"),
        (429, {"resets_in_seconds": 7.2}, "8"),
        (503, {"retry_after": 0}, "0"),
        (429, {"resets_in_seconds": 7, "headers": {"Retry-After": "3"}}, "3"),
        (429, {"resets_in_seconds": -1}, None),
        (429, {"resets_in_seconds": True}, None),
        (429, {"resets_in_seconds": "7"}, None),
        (429, {"resets_in_seconds": float("nan")}, None),
        (429, {"resets_in_seconds": float("inf")}, None),
        (400, {"resets_in_seconds": 7}, None),
    ],
)
def test_a_wait_that_only_the_body_tells_becomes_a_header(
    status: int, error: dict[str, Any], header: str | None
) -> None:
    assert from_frame({"status": status, "error": error}).headers.get("retry-after") == header


@given(FRAMES)
def test_any_object_is_an_error_that_can_be_written_in_every_shape(frame: dict[str, Any]) -> None:
    error = from_frame(frame)
    assert 400 <= error.status <= 599
    assert error.message
    assert error.type
    assert json.loads(error.sse_data(0))["message"] == error.message
    assert json.loads(error.http_body())["error"]["message"] == error.message
    assert json.loads(error.ws_frame())["status"] == error.status


@pytest.mark.parametrize(
    "frame",
    [
        {"status": 400, "error": {"code": PREVIOUS_NOT_FOUND, "message": "?", "param": "previous_response_id"}},
        {"status": 400, "error": {"code": None, "message": "Invalid previous_response_id."}},
        {"status": 400, "error": {"code": None, "message": "?", "param": "previous_response_id"}},
        {"status": 404, "error": {"code": "not_found", "message": "Previous response with id 'resp_a' not found."}},
        {"status": 404, "error": {"type": "not_found", "message": "Response with id 'resp_a' not found."}},
        {"error": {"code": PREVIOUS_NOT_FOUND}},
        {"status": 500, "error": {"code": PREVIOUS_NOT_FOUND}},
        {"error": {"type": "api_error", "message": "gRPC error: Response with id=resp_a not found"}},
    ],
)
def test_a_forgotten_response_is_recognised_by_code_param_or_message(frame: dict[str, Any]) -> None:
    assert is_previous_not_found(from_frame(frame))


@pytest.mark.parametrize(
    "frame",
    [
        {"status": 500, "error": {"message": "Invalid previous_response_id."}},
        {"error": {"type": "server_error", "message": "Response with id=resp_a not found"}},
        {"status": 404, "error": {"code": "model_not_found", "message": "The model `m` does not exist"}},
        {"status": 400, "error": {"message": "No tool output found for function call call_1."}},
        {"status": 400, "error": {"message": "Missing required parameter", "param": "input"}},
        {"status": 429, "error": {"code": "rate_limit_exceeded", "message": "slow down"}},
    ],
)
def test_other_errors_are_not_taken_for_a_forgotten_response(frame: dict[str, Any]) -> None:
    assert not is_previous_not_found(from_frame(frame))


@pytest.mark.parametrize(
    ("frame", "about"),
    [
        ({"error": {"message": "previous_response_id is not supported here", "type": "api_error"}}, True),
        ({"status": 500, "error": {"message": "No.", "param": "previous_response_id"}}, True),
        ({"status": 400, "error": {"code": PREVIOUS_NOT_FOUND}}, True),
        ({"status": 400, "error": {"message": "No response could be made.", "param": "input"}}, False),
        (json.loads(connection_limit(60).ws_frame()), False),
    ],
)
def test_an_error_is_about_the_previous_response_when_it_names_it(frame: dict[str, Any], *, about: bool) -> None:
    assert is_about_previous(from_frame(frame)) is about


def test_what_the_server_refuses_with_is_recognised_by_the_sidecar() -> None:
    assert is_previous_not_found(from_frame(json.loads(previous_not_found("resp_a").ws_frame())))
    assert is_connection_limit(from_frame(json.loads(connection_limit(60).ws_frame())))
    assert not is_connection_limit(previous_not_found("resp_a"))


def test_refusals_have_the_words_that_clients_know() -> None:
    assert facts(previous_not_found("resp_abc")) == facts(
        ApiError(
            400,
            "Previous response with id 'resp_abc' not found.",
            param="previous_response_id",
            code="previous_response_not_found",
        )
    )
    assert connection_limit(60).message.startswith("Responses websocket connection limit reached (60 minutes).")
    assert facts(invalid_request("m", param="input", code="c", status=422)) == facts(
        ApiError(422, "m", "invalid_request_error", "c", "input")
    )
    assert facts(server_error("m")) == facts(ApiError(500, "m", "server_error"))


@pytest.mark.parametrize(
    ("status", "kind"), [(400, "invalid_request_error"), (499, "invalid_request_error"), (500, "server_error")]
)
def test_of_an_error_that_is_a_mere_status_the_status_tells_the_type(status: int, kind: str) -> None:
    assert facts(bare(status, "m", {"retry-after": "5"})) == facts(
        ApiError(status, "m", kind, headers={"retry-after": "5"})
    )


def test_as_an_exception_it_says_its_code_and_no_message() -> None:
    assert str(error_of(message="hunter2")) == "429 slow_down"
    assert str(ApiError(400, "hunter2")) == "400 invalid_request_error"
    with pytest.raises(ApiError) as caught:
        raise error_of()
    assert caught.value.status == 429


def test_the_errors_of_lanes_are_those_that_the_api_documents() -> None:
    assert json.loads(invalid_stream_id().ws_frame()) == {
        "type": "error",
        "status": 400,
        "error": {
            "type": "invalid_request_error",
            "code": "invalid_stream_id",
            "message": "The 'stream_id' field must be a non-empty string with at most 256 characters and may only contain letters, numbers, underscores, hyphens, and periods.",
            "param": "stream_id",
        },
    }
    assert json.loads(stream_limit(32).ws_frame("agent_33")) == {
        "type": "error",
        "status": 400,
        "stream_id": "agent_33",
        "error": {
            "type": "invalid_request_error",
            "code": "websocket_stream_limit_reached",
            "message": "This WebSocket connection has reached its maximum number of distinct stream IDs (32). Reuse an existing stream_id or open a new WebSocket connection.",
            "param": "stream_id",
        },
    }


def test_an_error_can_be_given_a_code_in_any_case() -> None:
    assert invalid_request("no", param="x").coded().code == "invalid_request_error"
    assert invalid_request("no", param="x").coded().param == "x"
    assert invalid_stream_id().coded().code == "invalid_stream_id"
