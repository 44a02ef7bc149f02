"""The answer to what is no HTTP, or what a handler let fall: in the API's shape."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from upstream.http.io import as_error
from wire.errors import CLIENT_ERROR, SERVER_ERROR, invalid_request, server_error

if TYPE_CHECKING:
    from aiohttp import web


def unreadable(status: int) -> web.Response:
    """The answer of this status."""
    if CLIENT_ERROR <= status < SERVER_ERROR:
        error = invalid_request("The request is not valid HTTP.", status=status)
    else:
        error = server_error("The server had an error while processing your request.", status=status)
    answer = as_error(error)
    answer.headers["x-request-id"] = f"req_{secrets.token_hex(16)}"
    return answer
