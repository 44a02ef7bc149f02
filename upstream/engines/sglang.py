"""`sglang:URL`: SGLang's server, given token ids, and of a conversation that goes on only the new ones.

What it holds of a conversation is a hint (`upstream.engines.threads`): when it has forgotten, the prompt goes whole.
Leaving early closes the connection, by which the server knows that it may stop.
"""

from __future__ import annotations

import asyncio
import uuid
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any, Literal

from upstream.engine import Accepted, Part, Prompt
from upstream.engines import sglang_wire as wire
from upstream.engines.chains import unpacked
from upstream.engines.endpoint import Endpoint
from upstream.engines.threads import Threads
from upstream.engines.token_answer import TokenAnswer
from upstream.tasks import spawn
from upstream.templates.functions import by_name
from wire.errors import CLIENT_ERROR, ApiError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable, Sequence

    from upstream.engines.reading import Reading
    from upstream.engines.salt import Salts
    from upstream.engines.threads import Thread
    from upstream.engines.token_answer import Piece

_CLOSING = 5.0
"""Seconds at most for telling the engine at the end; what it is not told it forgets by itself."""


class Sglang:
    """One SGLang server."""

    takes: Literal["tokens"] = "tokens"

    def __init__(self, url: str, *, reading: Reading, salts: Salts, key: str = "", threads: int = 64) -> None:
        self._endpoint, self._reading, self._salts = Endpoint(url, key), reading, salts
        self._threads = Threads(threads)
        self._endings: set[asyncio.Task[None]] = set()

    def accepts(self, model: str) -> bool:
        """Any name: there is one model."""
        return bool(model)

    async def close(self) -> None:
        """End the threads, as far as the engine answers, and close the connections."""
        self._forget(self._threads.clear())
        if self._endings:
            _, left = await asyncio.wait(self._endings, timeout=_CLOSING)
            for one in left:
                one.cancel()
        await self._endpoint.close()

    async def warm(self, prompt: Prompt) -> None:
        """Let the engine read the prompt into its prefix cache."""
        await self._endpoint.call(wire.GENERATE, self._body(prompt, prompt.tokens.raw(), warms=True))

    async def generate(self, prompt: Prompt) -> AsyncGenerator[Part, None]:
        """The model's answer."""
        ids = prompt.tokens.raw()
        thread = self._threads.take(prompt.owner, ids)
        try:
            async with aclosing(self._answered(prompt, ids, thread)) as parts:
                async for part in parts:
                    yield part
        finally:
            self._forget(self._threads.give_back(thread))

    async def _answered(self, prompt: Prompt, ids: bytes, thread: Thread) -> AsyncGenerator[Part, None]:
        answer = TokenAnswer(self._reading.reader(by_name(prompt.tools), prompt.tokens.tail()))
        request = uuid.uuid4().hex
        is_accepted = False
        async with aclosing(self._pieces(prompt, ids, thread, request)) as pieces:
            async for piece in pieces:
                if not is_accepted:
                    is_accepted = True
                    yield Accepted()
                for part in answer.feed(piece):
                    yield part
        parts = list(answer.end())
        thread.ran(request, ids, bytes(answer.tokens))
        for part in parts:
            yield part

    async def _pieces(self, prompt: Prompt, ids: bytes, thread: Thread, request: str) -> AsyncGenerator[Piece, None]:
        """What the engine tells: of the new tokens in their thread, or of the whole prompt if it refuses that."""
        await self._begin(thread, ids)
        params, fresh = thread.step(ids, self._reading.opening)
        begun = False
        try:
            async with aclosing(self._streamed(self._body(prompt, fresh, request, params))) as pieces:
                async for piece in pieces:
                    begun = True
                    yield piece
        except ApiError as refused:
            if begun or not params or refused.status != CLIENT_ERROR:
                raise
        else:
            return
        thread.begin("")
        async with aclosing(self._streamed(self._body(prompt, ids))) as pieces:
            async for piece in pieces:
                yield piece

    async def _streamed(self, body: dict[str, Any]) -> AsyncGenerator[Piece, None]:
        outputs = wire.Outputs()
        async with aclosing(self._endpoint.events(wire.GENERATE, body)) as events:
            async for data in events:
                if data:
                    yield outputs.read(data)

    async def _begin(self, thread: Thread, ids: bytes) -> None:
        """Give the thread an id in the engine when its conversation goes on, and another when it holds too much."""
        if not thread.tokens or (thread.key and not thread.is_full(ids)):
            return
        if thread.key:
            self._forget([thread.key])
        key = uuid.uuid4().hex
        thread.begin("")
        with suppress(ApiError):  # a server without threads is sent everything
            await self._endpoint.tell(wire.OPEN, wire.opening(key))
            thread.begin(key)

    def _forget(self, keys: Sequence[str]) -> None:
        """Let the engine know, beside all turns, that these are not needed any more."""
        if keys:
            ending = spawn(self._end(keys), name="sglang-threads")
            self._endings.add(ending)
            ending.add_done_callback(self._endings.discard)

    async def _end(self, keys: Iterable[str]) -> None:
        for key in keys:
            with suppress(ApiError):  # it ends by itself later
                await self._endpoint.tell(wire.CLOSE, wire.closing(key))

    def _body(
        self,
        prompt: Prompt,
        ids: bytes,
        request: str = "",
        params: dict[str, Any] | None = None,
        *,
        warms: bool = False,
    ) -> dict[str, Any]:
        salt = self._salts.of(prompt.owner)
        made = wire.body(unpacked(ids), prompt, stops=self._reading.stops, salt=salt, warms=warms)
        return made | ({"rid": request} if request else {}) | ({"session_params": params} if params else {})
