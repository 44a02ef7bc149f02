"""What a ChatML model writes, read into parts as it streams.

Text is told at once, but never the beginning of a tag: what may become one is held back until it is clear. A call is
told when its closing tag is there, or at the end; what stands between the tags and is no call is text after all.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal

from upstream.engine import Delta, End, Part, Start
from upstream.engines.calls import start_of
from upstream.templates.chatml import CALL, THINK
from upstream.templates.functions import custom_input, value_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from upstream.stages.resolve import Tool

_Inside = Literal["reasoning", "call"]
_OPENING: dict[str, _Inside] = {f"<{THINK}>": "reasoning", f"<{CALL}>": "call"}
_CLOSING: dict[_Inside, str] = {"reasoning": f"</{THINK}>", "call": f"</{CALL}>"}


class Tags:
    """Reader of one answer. `tools` are those on offer, by the names that the model knows them by."""

    def __init__(self, tools: Mapping[str, Tool]) -> None:
        self._tools = tools
        self._mode: _Inside | Literal["message"] = "message"
        self._held = ""
        self._is_open = False

    def feed(self, text: str) -> Iterator[Part]:
        """Parts that `text` completes."""
        self._held += text
        while True:
            found = self._next_tag()
            if found is None:
                break
            at, tag = found
            before, self._held = self._held[:at], self._held[at + len(tag) :]
            yield from self._say(before.rstrip(), whole=True)
            self._mode = _OPENING[tag] if self._mode == "message" else "message"
        if self._mode != "call":
            ready = self._ready()
            said, self._held = self._held[:ready], self._held[ready:]
            yield from self._say(said)

    def end(self, *, cut: bool = False) -> Iterator[Part]:
        """Parts at the end; the running item of an answer that is `cut` does not end."""
        held, self._held = self._held, ""
        yield from self._say(held, whole=self._mode == "call")
        if self._is_open and not cut:
            yield from self._close()

    def _next_tag(self) -> tuple[int, str] | None:
        """The tag that ends what is being read, and where it begins."""
        tags = _OPENING if self._mode == "message" else (_CLOSING[self._mode],)
        found = [(at, tag) for tag in tags if (at := self._held.find(tag)) >= 0]
        return min(found, default=None)

    def _ready(self) -> int:
        """How much of what is held can be told: all but white space at the end and what may be a tag's beginning."""
        tags = tuple(_OPENING) if self._mode == "message" else (_CLOSING[self._mode],)
        end = len(self._held)
        if "<" not in self._held[1 - max(map(len, tags)) :]:  # as it is for nearly all of a text
            return len(self._held.rstrip())
        for length in range(min(end, max(map(len, tags)) - 1), 0, -1):
            if any(tag.startswith(self._held[-length:]) for tag in tags):
                end -= length
                break
        return len(self._held[:end].rstrip())

    def _say(self, text: str, *, whole: bool = False) -> Iterator[Part]:
        if self._mode == "call":
            yield from self._calls(text)
            return
        if not self._is_open:
            text = text.lstrip()
        if text:
            if not self._is_open:
                self._is_open = True
                yield Start(self._mode)
            yield Delta(text)
        if whole:
            yield from self._close()

    def _close(self) -> Iterator[Part]:
        if self._is_open:
            self._is_open = False
            yield End()

    def _calls(self, text: str) -> Iterator[Part]:
        """One call, or a list of them as some models write."""
        try:
            value = value_of(text)
        except ValueError:
            value = None
        calls = value if isinstance(value, list) else [value]
        if not calls or not all(isinstance(call, dict) and isinstance(call.get("name"), str) for call in calls):
            yield from (Start("message"), Delta(f"<{CALL}>{text}"), End())
            return
        for call in calls:
            yield from self._call(call)

    def _call(self, call: dict[str, Any]) -> Iterator[Part]:
        arguments = call.get("arguments", {})
        text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
        start = start_of(self._tools, call["name"])
        yield from (start, Delta(custom_input(text) if start.kind == "custom_tool_call" else text), End())
