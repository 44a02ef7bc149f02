"""One item while a model writes it, token by token, told as parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from upstream.engine import Delta, End, Part, Start
from upstream.engines.reader import Spelling
from upstream.templates.functions import custom_input

if TYPE_CHECKING:
    from collections.abc import Iterator

    from upstream.tokens.vocabulary import Vocabulary

_NO_ARGUMENTS = "{}"


class Writing:
    """One item. A call begins at once, text with its first character: an empty text is no item.

    A custom tool's input is told when it is whole, since the model wraps it; a call without arguments has empty ones.
    """

    def __init__(self, start: Start, vocabulary: Vocabulary) -> None:
        self.start = start
        self._spelling = Spelling(vocabulary)
        self._begun = False
        self._told = ""
        self._held: list[str] = []
        self._tokens = 0

    def begin(self) -> Iterator[Part]:
        """The beginning, where it does not wait for a character."""
        if self.start.kind == "function_call":
            yield from self._begin()

    def feed(self, token: int) -> Iterator[Part]:
        """Parts that this token completes."""
        self._tokens += 1
        yield from self.write(self._spelling.feed(token))

    def write(self, text: str) -> Iterator[Part]:
        """Parts of text that was read elsewhere."""
        if self.start.kind == "custom_tool_call":
            self._held.append(text)
        elif text:
            yield from self._begin()
            self._told = self._told or text.strip()
            yield self._delta(text)

    def end(self, tokens: bytes = b"", *, cut: bool = False) -> Iterator[Part]:
        """What is left; an item that is `cut` does not end. `tokens` are those that it was written with."""
        yield from self.write(self._spelling.rest())
        if self.start.kind == "custom_tool_call":
            yield from self._begin()
            yield self._delta(custom_input("".join(self._held)))
        elif self.start.kind == "function_call" and not self._told and not cut:
            yield self._delta(_NO_ARGUMENTS)
        if self._begun and not cut:
            yield End(tokens)

    def _begin(self) -> Iterator[Part]:
        if not self._begun:
            self._begun = True
            yield self.start

    def _delta(self, text: str) -> Delta:
        tokens, self._tokens = self._tokens, 0
        return Delta(text, tokens)
