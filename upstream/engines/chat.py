"""`chat:URL`: any endpoint with OpenAI's chat completions."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Literal

from upstream.engine import Accepted, Part, Prompt
from upstream.engines.chat_request import body
from upstream.engines.chunks import Chunks
from upstream.engines.endpoint import Endpoint
from upstream.templates.functions import by_name

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

_PATH = "/chat/completions"


class Chat:
    """One endpoint. `model` replaces the model that a request names; empty passes it on."""

    takes: Literal["items"] = "items"

    def __init__(self, url: str, *, model: str = "", key: str = "") -> None:
        self._endpoint, self._model = Endpoint(url, key), model

    def accepts(self, model: str) -> bool:
        """Any name: which there are, the endpoint knows."""
        return bool(model)

    async def warm(self, prompt: Prompt) -> None:
        """Nothing: an endpoint of this kind writes at least one token, which costs."""

    async def close(self) -> None:
        """Close the connections."""
        await self._endpoint.close()

    async def generate(self, prompt: Prompt) -> AsyncGenerator[Part, None]:
        """The endpoint's answer. Leaving early closes the connection, by which endpoints know that they may stop."""
        request = body(prompt, self._model or prompt.model)
        chunks = Chunks(by_name(prompt.tools))
        async with aclosing(self._endpoint.events(_PATH, request)) as events:
            async for data in events:
                if not data:
                    yield Accepted()
                    continue
                for part in chunks.feed(data):
                    yield part
                if chunks.done:
                    break
        for part in chunks.end():
            yield part
