"""`vllm:URL`: vLLM's server, given token ids, so that its prefix cache finds what it has read before.

Where the server offers tokens in and tokens out (`--enable-scale-out`) it is asked that way, else for a completion.
Leaving early closes the connection, by which the server knows that it may stop.
"""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Literal

from upstream.engine import Accepted, Part, Prompt
from upstream.engines.chains import unpacked
from upstream.engines.endpoint import Endpoint
from upstream.engines.token_answer import TokenAnswer
from upstream.engines.vllm_wire import ABSENT, GENERATE, MODELS, Asked, Server, body, read, window_of
from upstream.templates.functions import by_name
from wire.errors import CLIENT_ERROR, ApiError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from upstream.engines.reading import Reading
    from upstream.engines.salt import Salts


class Vllm:
    """One vLLM server. `model` is an adapter or an alias there; empty asks the server's own model."""

    takes: Literal["tokens"] = "tokens"

    def __init__(self, url: str, *, reading: Reading, salts: Salts, model: str = "", key: str = "") -> None:
        self._endpoint, self._reading, self._salts, self._model = Endpoint(url, key), reading, salts, model
        self._server: Server | None = None

    def accepts(self, model: str) -> bool:
        """Any name: there is one model."""
        return bool(model)

    async def close(self) -> None:
        """Close the connections."""
        await self._endpoint.close()

    async def warm(self, prompt: Prompt) -> None:
        """Let the engine read the prompt into its prefix cache."""
        server, ids = await self._known(), unpacked(prompt.tokens.raw())
        await self._endpoint.call(server.path, body(server, ids, prompt, self._asked(prompt), warms=True))

    async def generate(self, prompt: Prompt) -> AsyncGenerator[Part, None]:
        """The model's answer."""
        ids = unpacked(prompt.tokens.raw())
        answer = TokenAnswer(self._reading.reader(by_name(prompt.tools), prompt.tokens.tail()))
        server = await self._known()
        request = body(server, ids, prompt, self._asked(prompt))
        try:
            async with aclosing(self._endpoint.events(server.path, request)) as events:
                async for data in events:
                    if not data:
                        yield Accepted()
                        continue
                    for part in answer.feed(read(data)):
                        yield part
        except ApiError as failure:
            if failure.status != CLIENT_ERROR:
                self._server = None  # it may have been started again, with other options
            raise
        for part in answer.end():
            yield part

    def _asked(self, prompt: Prompt) -> Asked:
        return Asked(self._reading.stops, self._salts.of(prompt.owner), self._model)

    async def _known(self) -> Server:
        if self._server is None:
            window = window_of(await self._endpoint.call(MODELS), self._model)
            # An empty request is refused where the endpoint is, and otherwise where it is not.
            self._server = Server(window, await self._endpoint.status(GENERATE, {}) not in ABSENT)
        return self._server
