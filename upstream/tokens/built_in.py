"""Vocabularies that come with the package: those of gpt-oss and the API's models, of Qwen 3 and of Llama 3."""

from __future__ import annotations

from array import array
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import quicktok

if TYPE_CHECKING:
    from collections.abc import Sequence

NAMES: Final = ("o200k_harmony", "qwen3", "llama3", "cl100k_base")


class BuiltIn:
    """One of `NAMES`. Reading it takes about a second of CPU time."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._encoding = quicktok.get_encoding(name)
        self._specials = {one: self._encoding.encode_single_token(one) for one in self._encoding.special_tokens_set}

    def ordinary(self, text: str) -> bytes:
        """Tokens of ordinary text."""
        try:
            found = self._encoding.encode_ordinary(text)
        except TypeError:  # it takes no lone surrogates
            found = self._encoding.encode_ordinary(whole(text))
        return array("I", found).tobytes()

    def special(self, name: str) -> int:
        """A control token."""
        return known(self._specials, name, self.name)

    def has(self, name: str) -> bool:
        """Whether there is such a control token."""
        return name in self._specials

    def text(self, tokens: Sequence[int]) -> bytes:
        """UTF-8 of tokens."""
        made = bytearray()
        for token in tokens:
            with suppress(KeyError, TypeError):
                made += self._encoding.decode_single_token_bytes(token)
        return bytes(made)


def whole(text: str) -> str:
    """The text as it can be encoded: pairs of surrogates are characters, others the replacement character."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def known(specials: dict[str, int], name: str, vocabulary: str) -> int:
    """The control token of this name. Raises `ValueError`, of one line, when there is none."""
    try:
        return specials[name]
    except KeyError:
        raise ValueError(f"the vocabulary {vocabulary} has no token {name}") from None
