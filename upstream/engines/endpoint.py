"""HTTP to an engine: requests whose answers stream, and small ones that do not; failures as `ApiError`."""

from __future__ import annotations

import json
from contextlib import aclosing, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

import aiohttp
import orjson
import structlog

from upstream.engines.failures import broken_off, from_answer, unreachable
from wire.sse import Parser

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Iterator

_log = structlog.get_logger("upstream")
_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=600)
_MAX_ERROR = 64 * 1024
_KEPT = 3.0
"""Seconds for which an idle connection is used again: llama.cpp closes its own after 5."""
_OK = 200
_STREAM = "text/event-stream"


class Endpoint:
    """One base URL. The key is shown as bearer and nowhere else.

    `keeps_streams` is whether a connection that carried a stream may carry another request: llama.cpp closes it.
    """

    def __init__(self, url: str, key: str = "", *, keeps_streams: bool = True) -> None:
        self._url, self._keeps_streams = url, keeps_streams
        self._headers = {"content-type": "application/json"} | ({"authorization": f"Bearer {key}"} if key else {})
        self._http: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Close the connections."""
        if self._http is not None:
            await self._http.close()

    async def events(self, path: str, body: dict[str, Any] | None) -> AsyncGenerator[bytes, None]:
        """Data of the events that answer; empty at first, once the endpoint has taken the request.

        An answer that does not stream is one event. Closing the generator closes the connection. Without a body it is
        a GET.
        """
        with _failing(path):
            async with aclosing(self._events(path, body)) as events:
                async for data in events:
                    yield data

    async def status(self, path: str, body: dict[str, Any]) -> int:
        """The status that answers, whichever it is."""
        with _failing(path):
            async with self._request(path, body) as answer:
                return answer.status

    async def tell(self, path: str, body: dict[str, Any] | None = None) -> bytes:
        """The body that answers."""
        found = b""
        async with aclosing(self.events(path, body)) as events:
            async for data in events:
                found = data or found
        return found

    async def call(self, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """The JSON object that answers."""
        try:
            value = orjson.loads(await self.tell(path, body))
        except orjson.JSONDecodeError:
            value = None
        if not isinstance(value, dict):
            raise broken_off()
        return value

    async def _events(self, path: str, body: dict[str, Any] | None) -> AsyncGenerator[bytes, None]:
        async with self._request(path, body) as answer:
            if answer.status != _OK:
                # A client is told less: a key that the endpoint refuses, or a wrong path, is for the operator to see.
                _log.warning("engine_refused", status=answer.status, path=path)
                headers = {name.lower(): value for name, value in answer.headers.items()}
                raise from_answer(answer.status, headers, await answer.content.read(_MAX_ERROR))
            yield b""
            if answer.content_type != _STREAM:
                yield await answer.read()
                return
            parser = Parser()
            async for data in answer.content.iter_any():
                for event in parser.feed(data):
                    yield event.data

    @asynccontextmanager
    async def _request(self, path: str, body: dict[str, Any] | None) -> AsyncIterator[aiohttp.ClientResponse]:
        if self._http is None:
            self._http = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEPT),
                timeout=_TIMEOUT,
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        ends = not self._keeps_streams and body is not None and body.get("stream") is True
        async with self._http.request(
            "GET" if body is None else "POST",
            self._url + path,
            data=None if body is None else _encoded(body),
            headers=self._headers | ({"connection": "close"} if ends else {}),
            allow_redirects=False,
        ) as answer:
            try:
                yield answer
            finally:
                if not answer.content.at_eof():  # else the connection serves the next request
                    answer.close()


@contextmanager
def _failing(path: str) -> Iterator[None]:
    """Failures of the connection as `ApiError`."""
    try:
        yield
    except (aiohttp.ClientConnectorError, TimeoutError) as error:
        _log.warning("engine_unreachable", error=type(error).__name__, path=path)
        raise unreachable() from None
    except (aiohttp.ClientError, OSError) as error:
        _log.warning("engine_broke_off", error=type(error).__name__, path=path)
        raise broken_off() from None


def _encoded(value: dict[str, Any]) -> bytes:
    try:
        return orjson.dumps(value)
    except TypeError:  # integers beyond 64 bits, lone surrogates
        return json.dumps(value).encode()
