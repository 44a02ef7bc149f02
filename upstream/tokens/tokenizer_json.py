"""A vocabulary out of a `tokenizer.json`, the form that most open models come in.

Its added tokens are taken out of it before text is encoded: they are the control tokens, and in text they are text.
Byte-level vocabularies only. In others the tokens of a text depend on what stands before it, so that items could not
be encoded one by one.
"""

from __future__ import annotations

import json
from array import array
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from upstream.tokens.built_in import known, whole

if TYPE_CHECKING:
    from collections.abc import Sequence

SUFFIX: Final = ".json"
_PRINTED: Final = (range(0x21, 0x7F), range(0xA1, 0xAD), range(0xAE, 0x100))
_MAX: Final = 2**32
_SHIFT: Final = 0x100
"""Where the characters begin that stand for bytes which do not print."""


class TokenizerJson:
    """The vocabulary of a file. Needs the extra `tokenizers`."""

    def __init__(self, path: str) -> None:
        self.name = path
        read, self._specials = _read(path)
        self._names = {token: name.encode() for name, token in self._specials.items()}
        plain = read | {"added_tokens": [], "post_processor": None, "truncation": None, "padding": None}
        self._tokenizer = _tokenizer(path, json.dumps(plain))

    def ordinary(self, text: str) -> bytes:
        """Tokens of ordinary text."""
        try:
            found = self._tokenizer.encode(text, add_special_tokens=False)
        except (TypeError, UnicodeEncodeError):  # it takes no lone surrogates
            found = self._tokenizer.encode(whole(text), add_special_tokens=False)
        return array("I", found.ids).tobytes()

    def special(self, name: str) -> int:
        """A control token."""
        return known(self._specials, name, self.name)

    def has(self, name: str) -> bool:
        """Whether there is such a control token."""
        return name in self._specials

    def text(self, tokens: Sequence[int]) -> bytes:
        """UTF-8 of tokens."""
        return b"".join(map(self._piece, tokens))

    def _piece(self, token: int) -> bytes:
        if token in self._names:
            return self._names[token]
        shown = self._tokenizer.id_to_token(token) if 0 <= token < _MAX else None
        return bytes(_BYTES[character] for character in shown or "")


def _read(path: str) -> tuple[dict[str, Any], dict[str, int]]:
    """What the file says, and its added tokens."""
    try:
        read = json.loads(Path(path).read_bytes())
        added = {str(one["content"]): int(one["id"]) for one in read.get("added_tokens") or ()}
        plain = read["model"]["vocab"].keys() - added.keys()
    except OSError as error:
        raise ValueError(f"vocabulary {path}: {error.strerror}") from None
    except (ValueError, TypeError, KeyError, AttributeError):
        raise ValueError(f"vocabulary {path}: no tokenizer.json of a BPE model") from None
    if "ByteLevel" not in _kinds(read.get("decoder")) or not all(map(_is_byte_level, plain)):
        raise ValueError(f"vocabulary {path}: only byte-level vocabularies can be used")
    return read, added


def _kinds(part: Any) -> set[str]:
    """Types of a part of the file and of what it is made of."""
    if not isinstance(part, dict):
        return set()
    return {str(part.get("type"))}.union(*map(_kinds, part.get("decoders") or ()))


def _is_byte_level(token: str) -> bool:
    return all(character in _BYTES for character in token)


def _tokenizer(path: str, text: str) -> Any:
    try:
        return import_module("tokenizers").Tokenizer.from_str(text)
    except ModuleNotFoundError:
        raise ValueError(
            "a vocabulary out of a file needs, in the checkout: .venv/bin/pip install -e '.[tokenizers]'"
        ) from None
    except Exception as error:  # noqa: BLE001 - the library raises nothing narrower
        raise ValueError(f"vocabulary {path}: {error}") from None


def _bytes() -> dict[str, int]:
    """The byte that each character of a byte-level token stands for."""
    printed = [byte for part in _PRINTED for byte in part]
    others = [byte for byte in range(0x100) if byte not in printed]
    return {chr(byte): byte for byte in printed} | {chr(_SHIFT + at): byte for at, byte in enumerate(others)}


_BYTES: Final = _bytes()
