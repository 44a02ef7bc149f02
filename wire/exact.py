"""JSON that is read without loss and written in one form only, so that equal bytes mean an equal value.

RFC 8259 leaves open what a repeated key, a lone surrogate or a number beyond a double means; two readers may
then disagree about the same bytes. `parse` refuses the first two and keeps the text of the third.
"""

import json
import re
from typing import Final, NoReturn, final

import orjson

_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")
_SHORT: Final = 18  # characters: fits 64 bits whatever the digits, so that orjson can write it
_SHALLOW: Final = 200  # brackets: fewer cannot reach the depth (254) that orjson writes


class Inexact(ValueError):
    """The bytes are no JSON, or JSON that readers understand differently. Carries no content."""


@final
class Number:
    """A number kept as its text: 1.0, 1e0 and 1.00 are three numbers. Also -0, and integers beyond 64 bits."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text: Final = text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Number) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"Number({self.text!r})"


def _integer(text: str) -> int | Number:
    # A JSON integer other than -0 has exactly one text, so text equality and numeric equality agree.
    return int(text) if len(text) <= _SHORT and text != "-0" else Number(text)


def _constant(_: str) -> NoReturn:
    raise Inexact("NaN and Infinity are no JSON")


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise Inexact("a key stands twice")
    return value


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_object, parse_float=Number, parse_int=_integer, parse_constant=_constant
)


def parse(raw: bytes) -> object:
    """The value of one JSON text: dict, list, str, bool, None, int (up to 18 characters) or `Number`.

    Raises `Inexact` for what is no JSON, bad UTF-8, NaN, a repeated key, a lone surrogate, or nesting too deep
    to write again. Two values are the same when their dumps are: to Python, True == 1.
    """
    try:
        value: object = _DECODER.decode(raw.decode())
    except Inexact:
        raise
    except RecursionError:
        raise Inexact("nested too deep") from None
    except ValueError:  # its text quotes the input
        raise Inexact("no JSON in UTF-8") from None
    if _SURROGATE.search(raw) or raw.count(b"[") + raw.count(b"{") > _SHALLOW:
        dump(value)
    return value


def _fragment(value: object) -> orjson.Fragment:
    if isinstance(value, Number):
        return orjson.Fragment(value.text)
    raise TypeError(type(value).__name__)


def dump(value: object) -> bytes:
    """Canonical JSON of a value made of what `parse` returns: keys sorted, compact, raw UTF-8, numbers as written.

    Raises `Inexact` for lone surrogates, for nesting deeper than 254 and for types that are not JSON's.
    """
    try:
        written = orjson.dumps(value, default=_fragment, option=orjson.OPT_SORT_KEYS)
    except TypeError:  # orjson.JSONEncodeError is one
        raise Inexact("cannot be written as exact JSON") from None
    return written
