"""The stream of llama.cpp's `/completion`, read into parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from upstream.engine import Delta, Part, Start, Stop, Usage
from upstream.engines.failures import broken_off, told
from upstream.engines.numbers import token_ids, usage
from upstream.engines.tags import Tags

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from upstream.stages.resolve import Tool


class Completion:
    """Reader of one answer. `text` and `tokens` are what the model wrote, as it wrote it."""

    def __init__(self, tools: Mapping[str, Tool]) -> None:
        self._tags = Tags(tools)
        self._reasons = False
        self._reasoning_tokens = 0
        self._last: dict[str, Any] | None = None
        self._text: list[str] = []
        self.tokens = bytearray()

    @property
    def text(self) -> str:
        """What the model wrote, tags included."""
        return "".join(self._text)

    def feed(self, data: bytes) -> Iterator[Part]:
        """Parts of one event. Raises `ApiError` for an error in it."""
        event = told(data)
        content = event.get("content")
        self.tokens += token_ids(event.get("tokens") or [])
        if isinstance(content, str) and content:
            self._text.append(content)
            yield from self._counted(self._tags.feed(content))
        if event.get("stop") is True:
            self._last = event

    def end(self) -> Iterator[Part]:
        """Parts at the end of the stream. Raises `ApiError` when it was cut short."""
        if self._last is None:
            raise broken_off()
        cut = self._last.get("stop_type") == "limit"
        yield from self._counted(self._tags.end(cut=cut))
        yield Stop("max_output_tokens" if cut else None, self._usage(self._last))

    def _counted(self, parts: Iterable[Part]) -> Iterator[Part]:
        for part in parts:
            if isinstance(part, Start):
                self._reasons = part.kind == "reasoning"
            if isinstance(part, Delta) and self._reasons:
                self._reasoning_tokens += part.tokens
            yield part

    def _usage(self, last: dict[str, Any]) -> Usage | None:
        timings = last.get("timings")
        return usage(
            last.get("tokens_evaluated"),
            timings.get("cache_n") if isinstance(timings, dict) else None,
            last.get("tokens_predicted"),
            self._reasoning_tokens,
        )
