"""`llamacpp:URL`: llama.cpp's own server, given token ids, so that what it has read before is not read again.

The prompt is rendered as ChatML and tokenized by the engine, item by item; an item whose tokens are known is never
tokenized again, and what the model wrote itself keeps the tokens it was written with.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Literal

from upstream.engine import Accepted, Part, Prompt
from upstream.engines.chains import Chain, Slots, continued, unpacked
from upstream.engines.completion import Completion
from upstream.engines.endpoint import Endpoint
from upstream.engines.numbers import slots, token_ids
from upstream.templates import chatml
from upstream.templates.chatml import END
from upstream.templates.functions import by_name
from upstream.templates.parts import Run, Segment, plain, without_tags

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from upstream.stages.items import Item

_COMPLETION, _TOKENIZE, _PROPS = "/completion", "/tokenize", "/props"
_SHORT = 32
"""Characters up to which a run's tokens are kept for all conversations: roles, special tokens, line ends."""
_MAX_SHORT = 4096


class LlamaCpp:
    """One llama.cpp server."""

    takes: Literal["tokens"] = "tokens"

    def __init__(self, url: str, *, key: str = "") -> None:
        self._endpoint = Endpoint(url, key, keeps_streams=False)
        self._slots = Slots(0)
        self._idle: asyncio.Semaphore | None = None
        """One place for each slot; None until it is known how many there are."""
        self._short: dict[Run, bytes] = {}

    def accepts(self, model: str) -> bool:
        """Any name: there is one model."""
        return bool(model)

    async def close(self) -> None:
        """Close the connections."""
        await self._endpoint.close()

    async def warm(self, prompt: Prompt) -> None:
        """Let the engine read the prompt into its slot."""
        async with aclosing(self._turn(prompt, {"n_predict": 0, "stream": False})) as parts:
            async for _ in parts:
                pass

    async def generate(self, prompt: Prompt) -> AsyncGenerator[Part, None]:
        """The model's answer. Leaving early closes the connection, by which the server knows that it may stop."""
        limit = prompt.max_output_tokens
        options = {
            "n_predict": -1 if limit is None else limit,
            "stream": True,
            "stop": [END],
            "temperature": prompt.temperature,
            "top_p": prompt.top_p,
            "json_schema": _schema(prompt.text.get("format")),
        }
        async with aclosing(
            self._turn(prompt, {name: value for name, value in options.items() if value is not None})
        ) as parts:
            async for part in parts:
                yield part

    async def _turn(self, prompt: Prompt, options: dict[str, Any]) -> AsyncGenerator[Part, None]:
        """One after the other in each slot: the engine, left to itself, would take any for what has to wait."""
        async with await self._places(), aclosing(self._in_slot(prompt, options)) as parts:
            async for part in parts:
                yield part

    async def _in_slot(self, prompt: Prompt, options: dict[str, Any]) -> AsyncGenerator[Part, None]:
        items = tuple(prompt.items)
        head = chatml.head(prompt)
        slot, nearest, is_own = self._slots.take(prompt.owner, items)
        held: Chain | None = None
        try:
            chain = await self._continued(nearest, items, head)
            opening = chatml.tail(chain.rendered.open)
            begun = await self._tokens(opening)
            ids = unpacked(b"".join([*filter(None, chain.tokens), begun]))
            body = options | {"prompt": ids, "id_slot": slot, "cache_prompt": is_own, "return_tokens": True}
            answer = Completion(by_name(prompt.tools))
            async with aclosing(self._endpoint.events(_COMPLETION, body)) as events:
                async for data in events:
                    if not data:
                        yield Accepted()
                        continue
                    parts = list(answer.feed(data))
                    held = chain  # not before the engine has read it: the slot may still hold what another owner sent
                    for part in parts:
                        yield part
            written = bytes(answer.tokens).removesuffix(await self._run_tokens(Run(True, END)))
            chain.wrote = (plain([opening]) + answer.text, begun + written)
            for part in answer.end():
                yield part
        finally:
            self._slots.give_back(slot, held)

    async def _places(self) -> asyncio.Semaphore:
        if self._idle is None:
            total = slots((await self._endpoint.call(_PROPS)).get("total_slots"))
            if self._idle is None:  # several turns may have asked at once
                self._slots.count, self._idle = total, asyncio.Semaphore(total)
        return self._idle

    async def _continued(self, nearest: Chain, items: tuple[Item, ...], head: Segment) -> Chain:
        """The chain with these items, and the tokens of all its segments."""
        known = len(nearest.items)
        goes_on = nearest.items == items[:known]
        rendered = chatml.extend(nearest.rendered, items[known:]) if goes_on else chatml.extend(chatml.EMPTY, items)
        chain = continued(nearest, items, rendered, head)
        for place, segment in enumerate((head, *rendered.segments)):
            if chain.tokens[place] is None:
                chain.tokens[place] = await self._tokens(segment)
        return chain

    async def _tokens(self, segment: Segment) -> bytes:
        return b"".join([await self._run_tokens(run) for run in without_tags(segment)])

    async def _run_tokens(self, run: Run) -> bytes:
        known = self._short.get(run)
        if known is not None:
            return known
        body = {"content": run.text, "add_special": False, "parse_special": run.is_special}
        tokens = token_ids((await self._endpoint.call(_TOKENIZE, body)).get("tokens"))
        if len(run.text) <= _SHORT and len(self._short) < _MAX_SHORT:
            self._short[run] = tokens
        return tokens


def _schema(wanted: object) -> dict[str, Any] | None:
    if not isinstance(wanted, dict):
        return None
    if wanted.get("type") == "json_schema" and isinstance(schema := wanted.get("schema"), dict):
        return schema
    return {"type": "object"} if wanted.get("type") == "json_object" else None
