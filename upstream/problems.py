"""Errors about a request's members, worded as the API words them, with the member's path as `param`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from wire.errors import ApiError, invalid_request

if TYPE_CHECKING:
    import msgspec

_MESSAGE = re.compile(
    r"Expected `(?P<want>[^`]*)`(?:, got `(?P<got>[^`]*)`)?.* - at `(?:key in )?\$?\.?(?P<path>[^`]*)`"
)
_NAMES = {
    "str": "a string",
    "int": "an integer",
    "float": "a decimal number",
    "bool": "a boolean",
    "object": "an object",
    "array": "an array",
    "null": "null",
}
_FIRST = {b'"': "a string", b"{": "an object", b"[": "an array", b"t": "a boolean", b"f": "a boolean", b"n": "null"}


def missing(param: str) -> ApiError:
    """A required member is not there."""
    return invalid_request(f"Missing required parameter: '{param}'.", param=param, code="missing_required_parameter")


def invalid_value(param: str, message: str) -> ApiError:
    """A member has the right type and a value that it may not have."""
    return invalid_request(message, param=param, code="invalid_value")


def unsupported(param: str, why: str) -> ApiError:
    """A member that would change the answer and that this server cannot honour: refused, never ignored."""
    return invalid_request(f"Unsupported parameter: '{param}'. {why}", param=param, code="unsupported_parameter")


def no_lanes() -> ApiError:
    """A lane is named where there are none."""
    return invalid_request(
        "This server runs one response at a time per connection: 'stream_id' is not supported.",
        param="stream_id",
        code="invalid_stream_id",
    )


def invalid_type(param: str, expected: str, raw: bytes) -> ApiError:
    """A member of the wrong JSON type; `raw` is its value, of which only the kind is told."""
    got = _FIRST.get(raw[:1], "a number")
    return invalid_request(
        f"Invalid type for '{param}': expected {expected}, but got {got} instead.", param=param, code="invalid_type"
    )


def reworded(error: msgspec.DecodeError, prefix: str = "") -> ApiError:
    """A decoder's complaint in the API's words; nothing of the value itself is repeated."""
    found = _MESSAGE.search(str(error))
    if found is None:
        return invalid_request("The request could not be read: it is not valid JSON.", param=prefix or None)
    path = ".".join(part for part in (prefix, found["path"].lstrip(".").replace("[...]", "")) if part)
    kinds = [_NAMES[kind] for name in found["want"].split(" | ") if (kind := name.strip()) in _NAMES and kind != "null"]
    got = _NAMES.get(found["got"] or "", "something else")
    expected = kinds[0] if len(kinds) == 1 else f"one of {' or '.join(kinds)}" if kinds else "another value"
    return invalid_request(
        f"Invalid type for '{path}': expected {expected}, but got {got} instead.", param=path, code="invalid_type"
    )
