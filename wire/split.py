"""Bodies and frames taken apart and put together as raw bytes.

What is forwarded is never re-serialised: key order, number text and escapes stay as the client wrote them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypeVar

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable

_T = TypeVar("_T")
_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ARRAY = msgspec.json.Decoder(list[msgspec.Raw])
_KEY = re.compile(rb'[ \t\r\n]*"(?:[^"\\]|\\.)*"[ \t\r\n]*:[ \t\r\n]*', re.DOTALL)
_SPACE = re.compile(rb"[ \t\r\n]*")
_STRING = msgspec.json.Encoder()


class Malformed(ValueError):
    """Bytes that are not the JSON they have to be."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def members(data: bytes) -> dict[str, bytes]:
    """Top-level members of a JSON object, each value as it stands.

    Raises `Malformed` when `data` is not one JSON object in UTF-8, or when a key stands twice: which one counts is
    not for an intermediary to choose.
    """
    values = _decoded(_OBJECT, data)
    result = {key: bytes(raw) for key, raw in values.items()}
    if not _keys_are_single(data, result):
        raise Malformed("a key stands twice")
    return result


def elements(raw: bytes) -> list[bytes]:
    """Elements of a JSON array, each as it stands. Raises `Malformed` when `raw` is not an array."""
    return [bytes(item) for item in _decoded(_ARRAY, raw)]


def splice(pairs: Iterable[tuple[str, bytes]]) -> bytes:
    """A JSON object out of raw member values, in the order given."""
    return b"{" + b",".join(_STRING.encode(key) + b":" + raw for key, raw in pairs) + b"}"


def _decoded(decoder: msgspec.json.Decoder[_T], data: bytes) -> _T:
    try:
        if not data.isascii():
            data.decode()  # the decoder looks for structure only, and what is skipped has to be UTF-8 as well
        return decoder.decode(data)
    except RecursionError:
        raise Malformed("nested too deeply") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Malformed(_without_content(error)) from None


def _without_content(error: ValueError | msgspec.DecodeError) -> str:
    if isinstance(error, UnicodeDecodeError):
        return f"not UTF-8 (byte {error.start})"
    return str(error)


def _keys_are_single(data: bytes, values: dict[str, bytes]) -> bool:
    """Whether walking the members in order arrives exactly at the end of the object.

    The decoder keeps the first place and the last value of a repeated key, so a repetition shows as a walk that
    does not fit. Only keys are looked at; values are stepped over by their known length.
    """
    position = _after_space(data, _after_space(data, 0) + 1)
    for raw in values.values():
        key = _KEY.match(data, position)
        if key is None or not data.startswith(raw, key.end()):
            return False
        position = _after_space(data, key.end() + len(raw))
        position += data.startswith(b",", position)
    return data.startswith(b"}", position)


def _after_space(data: bytes, position: int) -> int:
    match = _SPACE.match(data, position)
    return match.end() if match else position
