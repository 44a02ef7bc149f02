"""`chat:URL`: any endpoint with OpenAI's chat completions."""

from __future__ import annotations

import json
from contextlib import aclosing
from typing import TYPE_CHECKING, Literal

import aiohttp
import orjson

from upstream.engine import Accepted, Part, Prompt
from upstream.engines.chat_request import body
from upstream.engines.chunks import Chunks
from upstream.engines.failures import broken_off, from_answer, unreachable
from upstream.engines.functions import by_name
from wire.sse import Parser

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from typing import Any

_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=600)
_MAX_ERROR = 64 * 1024


class Chat:
    """One endpoint. `model` replaces the model that a request names; empty passes it on."""

    takes: Literal["items"] = "items"

    def __init__(self, url: str, *, model: str = "", key: str = "") -> None:
        self._url = f"{url}/chat/completions"
        self._model = model
        self._headers = {"content-type": "application/json", "accept": "text/event-stream"}
        if key:
            self._headers["authorization"] = f"Bearer {key}"
        self._http: aiohttp.ClientSession | None = None

    def accepts(self, model: str) -> bool:
        """Any name: which there are, the endpoint knows."""
        return bool(model)

    async def warm(self, prompt: Prompt) -> None:
        """Nothing: an endpoint of this kind writes at least one token, which costs."""

    async def close(self) -> None:
        """Close the connections."""
        if self._http is not None:
            await self._http.close()

    async def generate(self, prompt: Prompt) -> AsyncGenerator[Part, None]:
        """The endpoint's answer. Leaving early closes the connection, by which endpoints know that they may stop."""
        request = _encoded(body(prompt, self._model or prompt.model))
        try:
            async with aclosing(self._chunks(request, Chunks(by_name(prompt.tools)))) as parts:
                async for part in parts:
                    yield part
        except (aiohttp.ClientConnectorError, aiohttp.ServerTimeoutError, TimeoutError):
            raise unreachable() from None
        except (aiohttp.ClientError, OSError):
            raise broken_off() from None

    async def _chunks(self, request: bytes, chunks: Chunks) -> AsyncGenerator[Part, None]:
        async with self._connections().post(
            self._url, data=request, headers=self._headers, allow_redirects=False
        ) as answer:
            try:
                if answer.status != 200:  # noqa: PLR2004 - HTTP's own number
                    headers = {name.lower(): value for name, value in answer.headers.items()}
                    raise from_answer(answer.status, headers, await answer.content.read(_MAX_ERROR))
                yield Accepted()
                if answer.content_type == "text/event-stream":
                    parser = Parser()
                    async for data in answer.content.iter_any():
                        for event in parser.feed(data):
                            for part in chunks.feed(event.data):
                                yield part
                        if chunks.done:
                            break
                else:
                    for part in chunks.feed(await answer.read()):
                        yield part
                for part in chunks.end():
                    yield part
            finally:
                answer.close()

    def _connections(self) -> aiohttp.ClientSession:
        if self._http is None:
            self._http = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0), timeout=_TIMEOUT, cookie_jar=aiohttp.DummyCookieJar()
            )
        return self._http


def _encoded(value: dict[str, Any]) -> bytes:
    try:
        return orjson.dumps(value)
    except TypeError:  # integers beyond 64 bits, lone surrogates
        return json.dumps(value).encode()
