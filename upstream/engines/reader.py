"""What a model writes as tokens, read into parts: the contract of its readers, and text out of tokens.

Readers are given tokens in whatever pieces they come and tell the same parts. They never fail: a model may write
anything, and what has no form in its template is text.
"""

from __future__ import annotations

import codecs
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from upstream.engine import Part
    from upstream.tokens.vocabulary import Vocabulary


class Reader(Protocol):
    """Of one answer. It tells the tokens of an item (`End.tokens`) where they are this item's and nothing else."""

    @property
    def reasoning_tokens(self) -> int:
        """Tokens so far whose text is reasoning."""

    def feed(self, tokens: Iterable[int]) -> Iterator[Part]:
        """Parts that these tokens complete."""

    def end(self, *, cut: bool = False) -> Iterator[Part]:
        """Parts at the end; the running item of an answer that is `cut` does not end."""


class Spelling:
    """Text as tokens complete it: a character may be spread over several of them."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, token: int) -> str:
        """The characters that this token completes."""
        return self._decoder.decode(self._vocabulary.text((token,)))

    def rest(self) -> str:
        """What is left of a character that no token completed; the next one begins anew."""
        left = self._decoder.decode(b"", final=True)
        self._decoder.reset()
        return left
