"""The answer to what is no HTTP, or what a handler let fall: in the shape of all errors of the sidecar itself."""

from __future__ import annotations

import secrets

from aiohttp import web

from wire.errors import CLIENT_ERROR, SERVER_ERROR, invalid_request, server_error


def unreadable(status: int) -> web.Response:
    """The answer of this status."""
    if CLIENT_ERROR <= status < SERVER_ERROR:
        code, error = "invalid_http", invalid_request("The request is not valid HTTP.", status=status)
    else:
        code, error = "internal", server_error("The sidecar had an error.", status=status)
    headers = {"x-request-id": f"req_{secrets.token_hex(16)}", "x-deltawire-error": code}
    return web.Response(status=status, body=error.http_body(), headers=headers, content_type="application/json")
