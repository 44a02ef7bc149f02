"""A listener that quotes nothing of what it cannot read: the library's own answer and log show what was sent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import structlog
from aiohttp import web

from wire.errors import SERVER_ERROR

if TYPE_CHECKING:
    from collections.abc import Callable

_log = structlog.get_logger("deltawire")


class Runner(web.AppRunner):
    """Runs an application. `answer` makes of a status the answer to what is no HTTP, or to what a handler let fall."""

    def __init__(self, app: web.Application, answer: Callable[[int], web.Response], **settings: Any) -> None:
        super().__init__(app, **settings)
        self._answer = answer

    async def _make_server(self) -> web.Server:
        server = await super()._make_server()
        server.__class__ = _Server  # the library has no other place for it
        cast("_Server", server).answer = self._answer
        return server


class _Server(web.Server):
    answer: Callable[[int], web.Response]

    def __call__(self) -> web.RequestHandler:
        connection = _Connection(self, loop=self._loop, **self._kwargs)
        connection.answer = self.answer
        return connection


class _Connection(web.RequestHandler):
    __slots__ = ("answer",)
    answer: Callable[[int], web.Response]

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
        answer = self.answer(status)
        answer.force_close()
        return answer
