"""The chunks of a streamed chat completion, read into parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from upstream.engine import Delta, End, Part, Start, Stop, Usage
from upstream.engines.calls import Calls
from upstream.engines.failures import broken_off, told
from upstream.engines.numbers import usage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from upstream.stages.resolve import Tool

_REASONING = ("reasoning_content", "reasoning")
_ANSWER = ("content", "refusal")
_INCOMPLETE: dict[str, Literal["max_output_tokens", "content_filter"]] = {
    "length": "max_output_tokens",
    "content_filter": "content_filter",
}
DONE = b"[DONE]"


class Chunks:
    """Reader of one answer. `tools` are those on offer, by the names that the model knows them by."""

    def __init__(self, tools: Mapping[str, Tool]) -> None:
        self._calls = Calls(tools)
        self._running: Literal["", "reasoning", "message"] = ""
        self._finish: str | None = None
        self._usage: Usage | None = None
        self.done = False
        """Whether the stream has said that it is over."""

    def feed(self, data: bytes) -> list[Part]:
        """Parts of one chunk, the data of one event; or of a whole answer. Raises `ApiError` for an error in it."""
        if data.strip() == DONE:
            self.done = True
            return []
        chunk = told(data)
        self._usage = _usage(chunk.get("usage")) or self._usage
        choices = chunk.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else None
        if not isinstance(choice, dict):
            return []
        delta = choice.get("delta") or choice.get("message")
        parts = list(self._delta(delta)) if isinstance(delta, dict) else []
        if isinstance(reason := choice.get("finish_reason"), str):
            self._finish = reason
        return parts

    def end(self) -> list[Part]:
        """Parts at the end of the stream. Raises `ApiError` when it was cut short."""
        if self._finish is None and not self.done:
            raise broken_off()
        incomplete = _INCOMPLETE.get(self._finish or "")
        parts = [*self._close(cut=incomplete is not None), *self._calls.finish(cut=incomplete is not None)]
        return [*parts, Stop(incomplete, self._usage)]

    def _delta(self, delta: dict[str, Any]) -> Iterator[Part]:
        thought = next((text for name in _REASONING if (text := _plain(delta.get(name)))), "")
        yield from self._text("reasoning", thought)
        for name in _ANSWER:
            yield from self._text("message", _plain(delta.get(name)))
        pieces = delta.get("tool_calls")
        for place, piece in enumerate(pieces if isinstance(pieces, list) else ()):
            if isinstance(piece, dict):
                yield from self._close()
                yield from self._calls.add(piece, place)

    def _text(self, kind: Literal["reasoning", "message"], text: str) -> Iterator[Part]:
        if not text:
            return
        yield from self._calls.finish()
        if self._running != kind:
            yield from self._close()
            self._running = kind
            yield Start(kind)
        yield Delta(text)

    def _close(self, *, cut: bool = False) -> Iterator[Part]:
        """End the running text; one that is cut stays open, for the answer's end to end it."""
        if self._running and not cut:
            yield End()
        self._running = ""


def _plain(value: object) -> str:
    """Text, also where it comes as a list of parts."""
    if isinstance(value, list):
        return "".join(_plain(part.get("text")) for part in value if isinstance(part, dict))
    return value if isinstance(value, str) else ""


def _usage(value: object) -> Usage | None:
    if not isinstance(value, dict):
        return None
    return usage(
        value.get("prompt_tokens"),
        _within(value.get("prompt_tokens_details"), "cached_tokens"),
        value.get("completion_tokens"),
        _within(value.get("completion_tokens_details"), "reasoning_tokens"),
    )


def _within(value: object, name: str) -> object:
    return value.get(name) if isinstance(value, dict) else None
