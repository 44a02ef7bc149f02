"""A vocabulary small enough to see through: a token is a byte, and control tokens are numbers above."""

from __future__ import annotations

import re
from array import array
from typing import TYPE_CHECKING

from upstream.templates import chatml, harmony

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_FIRST = 1000
_NAMES = (*harmony.CONTROLS, *chatml.CONTROLS)
UNKNOWN = 999
"""A token that is not in it."""


class Bytes:
    """The vocabulary, of these control tokens."""

    name = "bytes"

    def __init__(self, names: Iterable[str] = _NAMES) -> None:
        self._specials = {name: _FIRST + place for place, name in enumerate(names)}
        self._names = {token: name for name, token in self._specials.items()}

    def ordinary(self, text: str) -> bytes:
        return array("I", text.encode()).tobytes()

    def special(self, name: str) -> int:
        try:
            return self._specials[name]
        except KeyError:
            raise ValueError(name) from None

    def has(self, name: str) -> bool:
        return name in self._specials

    def text(self, tokens: Sequence[int]) -> bytes:
        return b"".join(
            self._names.get(token, "").encode() or bytes([token] if token < 256 else []) for token in tokens
        )

    def ids(self, text: str) -> list[int]:
        """Tokens of a text in which control tokens stand by name."""
        pieces = re.split(f"({'|'.join(map(re.escape, self._specials))})", text)
        return [
            one for piece in pieces for one in ([self._specials[piece]] if piece in self._specials else piece.encode())
        ]


BYTES = Bytes()


class Given:
    """A prompt of these tokens, the last of which make the model write."""

    def __init__(self, *tokens: int, tail: int = 0) -> None:
        self._tokens, self._tail = array("I", tokens), array("I", tokens[len(tokens) - tail :])

    def raw(self) -> bytes:
        return self._tokens.tobytes()

    def tail(self) -> bytes:
        return self._tail.tobytes()
