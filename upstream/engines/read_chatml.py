"""What a ChatML model writes, read into parts as its tokens stream: up to its end, or the beginning of another turn.

The items of an answer are one block, and tokens need not keep to the border between two. So their tokens are told of an
item that is the whole answer, and of no other.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from upstream.engine import Delta, End, Part, Start
from upstream.engines.reader import Spelling
from upstream.engines.tags import Tags
from upstream.templates.chatml import END, START

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from upstream.stages.resolve import Tool
    from upstream.tokens.vocabulary import Vocabulary

_END_OF_TEXT = "<|endoftext|>"
STOPS = (END,)


class ChatML:
    """Reader of one answer. `tools` are those on offer, by the names that the model knows them by."""

    def __init__(self, vocabulary: Vocabulary, tools: Mapping[str, Tool], tail: bytes = b"") -> None:
        self._spelling, self._tags = Spelling(vocabulary), Tags(tools)
        self._ends = {vocabulary.special(END), vocabulary.special(START), *_optional(vocabulary, _END_OF_TEXT)}
        self._written = array("I", tail)
        self._items = 0
        self._ending = False
        """Whether an item is whole whose end is not told yet: another one may follow."""
        self._done = False
        self._is_reasoning = False
        self._tokens = 0
        self._reasoning_tokens = 0

    @property
    def reasoning_tokens(self) -> int:
        """Tokens so far whose text is reasoning."""
        return self._reasoning_tokens

    def feed(self, tokens: Iterable[int]) -> Iterator[Part]:
        """Parts that these tokens complete."""
        for token in tokens:
            if self._done:
                return
            self._written.append(token)
            self._done = token in self._ends
            if self._done:
                return
            self._tokens += 1
            yield from self._counted(self._tags.feed(self._spelling.feed(token)))

    def end(self, *, cut: bool = False) -> Iterator[Part]:
        """Parts at the end; the running item of an answer that is `cut` does not end."""
        yield from self._counted(self._tags.feed(self._spelling.rest()))
        yield from self._counted(self._tags.end(cut=cut))
        if self._ending:
            yield End(self._written.tobytes() if self._items == 1 and not cut else b"")

    def _counted(self, parts: Iterable[Part]) -> Iterator[Part]:
        for part in parts:
            if isinstance(part, Start):
                if self._ending:
                    yield End()
                self._ending, self._items = False, self._items + 1
                self._is_reasoning = part.kind == "reasoning"
            if isinstance(part, Delta):
                tokens, self._tokens = self._tokens, 0
                self._reasoning_tokens += tokens if self._is_reasoning else 0
                yield Delta(part.text, tokens)
            elif isinstance(part, End):
                self._ending = True
            else:
                yield part


def _optional(vocabulary: Vocabulary, name: str) -> set[int]:
    try:
        return {vocabulary.special(name)}
    except ValueError:
        return set()
