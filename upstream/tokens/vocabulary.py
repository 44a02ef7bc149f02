"""What a vocabulary offers, and the one of a name.

Ordinary text and control tokens have ways of their own: the name of a control token in anybody's text stays text.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final, Protocol

from upstream.tokens import built_in, tokenizer_json

if TYPE_CHECKING:
    from collections.abc import Sequence

DEFAULT: Final = "o200k_harmony"
FILE: Final = tokenizer_json.SUFFIX
"""How a name ends that is the path of a file."""


class Vocabulary(Protocol):
    """One vocabulary. Tokens are kept as raw uint32 of the machine's byte order."""

    @property
    def name(self) -> str:
        """What it was loaded as."""

    def ordinary(self, text: str) -> bytes:
        """Tokens of text that holds no control tokens, whatever it looks like. Takes any `str`, lone surrogates too."""

    def special(self, name: str) -> int:
        """The control token of this name. Raises `ValueError`, of one line, when there is none."""

    def has(self, name: str) -> bool:
        """Whether there is a control token of this name."""

    def text(self, tokens: Sequence[int]) -> bytes:
        """UTF-8 of tokens. A token may end within a character, so the bytes of several belong together.

        A control token gives its name, an id that is none gives nothing.
        """


@cache
def load(name: str) -> Vocabulary:
    """The vocabulary, read once. Raises `ValueError`, of one line, when there is none of this name."""
    if name in built_in.NAMES:
        return built_in.BuiltIn(name)
    if name.endswith(FILE):
        return tokenizer_json.TokenizerJson(name)
    raise ValueError(
        f"unknown vocabulary {name!r}: {', '.join(built_in.NAMES)}, or the path of a file that ends in {FILE}"
    )
