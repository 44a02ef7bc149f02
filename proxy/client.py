"""The client's side of a turn: its HTTP answer, held back until it is known what it has to be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiohttp import web

from proxy.headers import of_error
from wire.errors import server_error
from wire.sse import COMMENT, CONTENT_TYPE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from telemetry.turn import TurnRecord
    from wire.errors import ApiError

_JSON = "application/json"


class ClientSide:
    """Answers one request: one JSON body, one error, or one event stream."""

    def __init__(self, request: web.Request, record: TurnRecord) -> None:
        self._request = request
        self._record = record
        self._stream: web.StreamResponse | None = None

    @property
    def opened(self) -> bool:
        """Whether the status has been sent, as the 200 of an event stream."""
        return self._stream is not None

    def marks(self) -> dict[str, str]:
        """Headers that say how the turn went; without a transport there is only the id."""
        record = self._record
        found = {"x-request-id": record.request_id}
        if record.transport:
            found["x-deltawire-transport"] = record.transport
        if record.reason:
            found["x-deltawire-reason"] = record.reason
        if record.error:
            found["x-deltawire-error"] = record.error
        return found

    async def open(self) -> web.StreamResponse:
        """Send status 200 and the headers of an event stream."""
        if self._stream is None:
            stream = web.StreamResponse(headers=self.marks())
            stream.headers["content-type"] = CONTENT_TYPE
            stream.headers["cache-control"] = "no-cache"
            stream.headers["x-accel-buffering"] = "no"
            self._record.status = stream.status
            self._stream = stream
            await stream.prepare(self._request)
        return self._stream

    async def write(self, chunk: bytes) -> None:
        """Send part of the event stream, now."""
        await (await self.open()).write(chunk)

    async def comment(self) -> None:
        """Keep a silent stream alive."""
        await self.write(COMMENT)

    async def end(self) -> web.StreamResponse:
        """End the event stream."""
        stream = await self.open()
        await stream.write_eof()
        return stream

    async def json(self, body: bytes) -> web.StreamResponse:
        """Answer with a response object."""
        return await self._whole(200, body, {})

    async def error(self, error: ApiError, headers: Mapping[str, str] | None = None) -> web.StreamResponse:
        """Answer with an error and its status; `headers` are ours, beside those that the error carries."""
        return await self._whole(error.status, error.http_body(), of_error(error.headers) | dict(headers or {}))

    async def shutting_down(self) -> web.StreamResponse:
        """Answer that nothing more is taken."""
        self._record.error = "shutting_down"
        return await self.error(server_error("The sidecar is shutting down.", status=503, code="shutting_down"))

    async def unreachable(self) -> web.StreamResponse:
        """Answer that the upstream cannot be reached."""
        self._record.error = "upstream_unreachable"
        return await self.error(
            server_error("The upstream cannot be reached.", status=502, code="upstream_unreachable"),
        )

    async def _whole(self, status: int, body: bytes, headers: dict[str, str]) -> web.StreamResponse:
        self._record.status = status
        response = web.Response(status=status, body=body, content_type=_JSON, headers=headers | self.marks())
        await response.prepare(self._request)
        await response.write_eof()
        return response
