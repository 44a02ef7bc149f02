"""Errors of the API: one value, read from every shape they come in, written in every shape they leave in.

HTTP bodies and WebSocket frames nest the error under `error`; a frame also says its HTTP status, and headers that
HTTP would have sent. Events of an SSE stream are flat (`type: "error"`, then code, message, param).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

_JSON = msgspec.json.Encoder()
CLIENT_ERROR = 400
SERVER_ERROR = 500
"""The first statuses that blame the client and the server (RFC 9110, 15)."""
UNAUTHORIZED = 401
_MAX_ERROR_STATUS = 599
_WAITING = frozenset({429, 503})
_MAX_WAIT = 10**9

PREVIOUS_NOT_FOUND = "previous_response_not_found"
CONNECTION_LIMIT = "websocket_connection_limit_reached"
STREAM_LIMIT = "websocket_stream_limit_reached"
INVALID_STREAM = "invalid_stream_id"

STATUS_BY_NAME = {
    "invalid_request_error": 400,
    "invalid_prompt": 400,
    "context_length_exceeded": 400,
    PREVIOUS_NOT_FOUND: 400,
    CONNECTION_LIMIT: 400,
    STREAM_LIMIT: 400,
    INVALID_STREAM: 400,
    "authentication_error": 401,
    "invalid_api_key": 401,
    "permission_error": 403,
    "permission_denied": 403,
    "not_found_error": 404,
    "model_not_found": 404,
    "conflict_error": 409,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "insufficient_quota": 429,
    "usage_limit_reached": 429,
    "slow_down": 429,
    "too_many_requests": 429,
    "server_is_overloaded": 503,
    "overloaded_error": 503,
    "service_unavailable": 503,
    "server_error": 500,
}
"""HTTP status by an error's `code` or `type`, for frames that come without one. `api_error` may be anybody's fault."""


@dataclass(slots=True, eq=False)
class ApiError(Exception):
    """An error as the Responses API reports it. `headers` are those HTTP would carry, such as `retry-after`."""

    status: int
    message: str
    type: str = "invalid_request_error"
    code: str | None = None
    param: str | None = None
    headers: dict[str, str] = field(default_factory=dict)
    details: dict[str, Any] = field(default_factory=dict)
    """Further members of the error object that clients read, such as `resets_in_seconds`."""
    guessed: bool = False
    """Whether nothing told the status."""

    def __str__(self) -> str:
        return f"{self.status} {self.code or self.type}"

    def _object(self) -> dict[str, Any]:
        own = {"message": self.message, "type": self.type, "param": self.param, "code": self.code}
        return own | {name: value for name, value in self.details.items() if name not in own}

    def coded(self) -> ApiError:
        """The error with a code in any case: its type, when it has none (Open Responses: error envelopes)."""
        return self if self.code else replace(self, code=self.type)

    def http_body(self) -> bytes:
        """Body of an HTTP answer: `{"error": {...}}`."""
        return _JSON.encode({"error": self._object()})

    def ws_frame(self, stream_id: str | None = None) -> bytes:
        """Text frame of WebSocket mode. The status is always there: without it Codex waits for its idle timeout."""
        frame: dict[str, Any] = {"type": "error", "status": self.status}
        if stream_id is not None:
            frame["stream_id"] = stream_id
        frame["error"] = self._object() | ({"headers": self.headers} if self.headers else {})
        if self.headers:
            frame["headers"] = self.headers
        return _JSON.encode(frame)

    def sse_data(self, sequence_number: int) -> bytes:
        """Data of an `event: error` inside a running stream: flat."""
        return _JSON.encode(
            {
                "type": "error",
                "code": self.code,
                "message": self.message,
                "param": self.param,
                "sequence_number": sequence_number,
            },
        )


def from_frame(frame: dict[str, Any]) -> ApiError:
    """The error in a frame or body: wrapped or flat, with or without status, headers in either place.

    Anything missing or of the wrong type is filled from what is there; this never raises.
    """
    nested = frame.get("error")
    error: dict[str, Any] = nested if isinstance(nested, dict) else frame
    code = _text(error.get("code"))
    kind = _text(error.get("type")) if error is not frame else None
    status = _status(frame.get("status"), frame.get("status_code"), error.get("status"), error.get("status_code"))
    if status is None:
        status = next((STATUS_BY_NAME[name] for name in (code, kind) if name in STATUS_BY_NAME), None)
    guessed, status = status is None, status or SERVER_ERROR
    message = _text(error.get("message")) or _text(frame.get("detail")) or (nested if isinstance(nested, str) else "")
    known = {"message", "type", "param", "code", "headers", "status", "status_code"}
    headers = _headers(frame.get("headers")) | _headers(error.get("headers"))
    if status in _WAITING and "retry-after" not in headers and (seconds := _seconds(error)) is not None:
        headers["retry-after"] = str(seconds)
    return ApiError(
        status=status,
        message=message or "The upstream reported an error without a message.",
        type=kind or _type_of(status),
        code=code,
        param=_text(error.get("param")),
        headers=headers,
        details={name: value for name, value in error.items() if name not in known} if error is not frame else {},
        guessed=guessed,
    )


def is_previous_not_found(error: ApiError) -> bool:
    """Whether the error says that `previous_response_id` is not known. Ask only when one was sent.

    Services differ: some have no code, some only a message.
    """
    may_blame_client = error.guessed or CLIENT_ERROR <= error.status < SERVER_ERROR
    return error.code == PREVIOUS_NOT_FOUND or (may_blame_client and is_about_previous(error))


def is_about_previous(error: ApiError) -> bool:
    """Whether the error is about `previous_response_id`, unknown or unwelcome, with whatever status. Ask as above."""
    if error.code == PREVIOUS_NOT_FOUND or error.param == "previous_response_id":
        return True
    text = error.message.lower()
    return "previous_response_id" in text or ("response" in text and "not found" in text)


def is_connection_limit(error: ApiError) -> bool:
    """Whether the error says that the connection has reached its age and takes no further turn."""
    return error.code == CONNECTION_LIMIT


def invalid_request(message: str, *, param: str | None = None, code: str | None = None, status: int = 400) -> ApiError:
    """A request the client has to change."""
    return ApiError(status=status, message=message, param=param, code=code)


def previous_not_found(response_id: str) -> ApiError:
    """The named response is not in this connection's cache and not stored."""
    return invalid_request(
        f"Previous response with id '{response_id}' not found.",
        param="previous_response_id",
        code=PREVIOUS_NOT_FOUND,
    )


def connection_limit(minutes: int) -> ApiError:
    """The connection is as old as a connection may get."""
    return invalid_request(
        f"Responses websocket connection limit reached ({minutes} minutes). "
        "Create a new websocket connection to continue.",
        code=CONNECTION_LIMIT,
    )


def invalid_stream_id() -> ApiError:
    """A lane's name that no lane may have."""
    return invalid_request(
        "The 'stream_id' field must be a non-empty string with at most 256 characters and may only contain letters, "
        "numbers, underscores, hyphens, and periods.",
        param="stream_id",
        code=INVALID_STREAM,
    )


def stream_limit(names: int) -> ApiError:
    """The connection has seen as many names of lanes as it may."""
    return invalid_request(
        f"This WebSocket connection has reached its maximum number of distinct stream IDs ({names}). "
        "Reuse an existing stream_id or open a new WebSocket connection.",
        param="stream_id",
        code=STREAM_LIMIT,
    )


def server_error(message: str, *, status: int = 500, code: str | None = None) -> ApiError:
    """A fault that is not the client's."""
    return ApiError(status=status, message=message, type="server_error", code=code)


def bare(status: int, message: str, headers: dict[str, str]) -> ApiError:
    """An error of which nothing is known but an HTTP status, and headers (names in lower case) to pass on."""
    return ApiError(status, message, _type_of(status), headers=headers)


def _type_of(status: int) -> str:
    return "server_error" if status >= SERVER_ERROR else "invalid_request_error"


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _status(*candidates: object) -> int | None:
    for value in candidates:
        if isinstance(value, int) and not isinstance(value, bool) and CLIENT_ERROR <= value <= _MAX_ERROR_STATUS:
            return value
    return None


def _seconds(error: dict[str, Any]) -> int | None:
    """Whole seconds to wait, as some services say it in the error object instead of a header."""
    for name in ("resets_in_seconds", "retry_after"):
        value = error.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < _MAX_WAIT:
            return math.ceil(value)
    return None


def _headers(value: object) -> dict[str, str]:
    """Header values as strings; Codex's own reader accepts numbers and booleans as well."""
    if not isinstance(value, dict):
        return {}
    return {
        name.lower(): str(item).lower() if isinstance(item, bool) else str(item)
        for name, item in value.items()
        if isinstance(name, str) and isinstance(item, str | int | float)
    }
