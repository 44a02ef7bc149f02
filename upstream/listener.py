"""What HTTP the library cannot read is answered here: in the API's shape as everything else, and quoted nowhere."""

from __future__ import annotations

import secrets

import structlog
from aiohttp import web

from upstream.http.io import as_error
from wire.errors import CLIENT_ERROR, SERVER_ERROR, invalid_request, server_error

_log = structlog.get_logger("upstream")


class Runner(web.AppRunner):
    """Runs an application whose connections answer so."""

    async def _make_server(self) -> web.Server:
        server = await super()._make_server()
        server.__class__ = _Server  # the library has no other place for it
        return server


class _Server(web.Server):
    def __call__(self) -> web.RequestHandler:
        return _Connection(self, loop=self._loop, **self._kwargs)


class _Connection(web.RequestHandler):
    __slots__ = ()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = SERVER_ERROR,
        exc: BaseException | None = None,
        message: str | None = None,  # noqa: ARG002 - it quotes what the client sent, a key perhaps
    ) -> web.StreamResponse:
        """The answer to what cannot be read, or to a handler that failed; after it the connection closes."""
        _log.warning("request_failed", status=status, error=type(exc).__name__)
        if request.writer.output_size > 0:
            raise ConnectionError("the answer has begun, and cannot become another one")
        if CLIENT_ERROR <= status < SERVER_ERROR:
            error = invalid_request("The request is not valid HTTP.", status=status)
        else:
            error = server_error("The server had an error while processing your request.", status=status)
        answer = as_error(error)
        answer.headers["x-request-id"] = f"req_{secrets.token_hex(16)}"
        answer.force_close()
        return answer
