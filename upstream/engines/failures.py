"""What an engine's failure is to a client of this server.

The client may change its request or wait, and is told so; what only the operator can change is a server error. What
an endpoint says of a bad request is passed on, since only it knows; nothing else of its words is.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import orjson

from wire.errors import ApiError, from_frame, invalid_request, server_error

if TYPE_CHECKING:
    from collections.abc import Mapping

OVERLOADED = "server_is_overloaded"
_WAIT = "retry-after"
_MAX_MESSAGE = 1000
_TOO_LONG = "exceed_context_size_error"
"""How llama.cpp calls a prompt that does not fit."""
_WINDOW = "context length"
"""What vLLM and SGLang speak of then, which have no name for it."""
_CLIENTS = frozenset({400, 413, 415, 422})
_BUSY = frozenset({503, 529})


def unreachable() -> ApiError:
    """Nobody answers."""
    return server_error("The engine cannot be reached.", status=HTTPStatus.SERVICE_UNAVAILABLE, code=OVERLOADED)


def broken_off() -> ApiError:
    """The answer ended before its end, or cannot be read."""
    return server_error("The engine's answer broke off.", status=HTTPStatus.BAD_GATEWAY)


def from_answer(status: int, headers: Mapping[str, str], body: bytes) -> ApiError:
    """The error for an answer that is not a success; names of `headers` in lower case."""
    told = _read(body)
    waiting = {_WAIT: headers[_WAIT]} if _WAIT in headers else {}
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        message = "The engine takes no more requests for now."
        code = told.code or "rate_limit_exceeded"
        return ApiError(status, message, type="rate_limit_error", code=code, headers=waiting)
    if status in _CLIENTS:
        named = "context_length_exceeded" if told.type == _TOO_LONG or _WINDOW in told.message else told.code
        return invalid_request(told.message[:_MAX_MESSAGE], code=named)
    if status == HTTPStatus.NOT_FOUND:
        return ApiError(status, "The engine does not have this model.", param="model", code="model_not_found")
    if status in _BUSY:
        message = "The engine is overloaded."
        status = HTTPStatus.SERVICE_UNAVAILABLE
        return ApiError(status, message, type="server_error", code=OVERLOADED, headers=waiting)
    return server_error("The engine failed.", status=HTTPStatus.BAD_GATEWAY)


def told(data: bytes) -> dict[str, Any]:
    """The object of one event of an answer. Raises `ApiError` when it is none, and when it is an error."""
    try:
        chunk: Any = orjson.loads(data)
    except orjson.JSONDecodeError:
        raise broken_off() from None
    if not isinstance(chunk, dict):
        raise broken_off()
    if chunk.get("error"):
        raise _in_stream(chunk)
    return chunk


def _in_stream(chunk: dict[str, Any]) -> ApiError:
    error = from_frame(chunk)
    code = chunk["error"].get("code") if isinstance(chunk["error"], dict) else None
    status = code if isinstance(code, int) else error.status
    return from_answer(status, error.headers, orjson.dumps(chunk))


def _read(body: bytes) -> ApiError:
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        value = None
    if not isinstance(value, dict):
        value = {"message": "The engine refused the request."}
    return from_frame(value)
