"""What the text of an option may be: each reader gives its value, or raises a `ValueError` that says what is needed.

Sizes are bytes or carry KiB, MiB, GiB; durations are seconds or carry ms, s, m, h.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from proxy.headers import HOP_BY_HOP, OWN_PREFIX
from proxy.settings import Address
from state.redis_url import parse_redis_url

if TYPE_CHECKING:
    from collections.abc import Callable

_SIZE = re.compile(r"(\d+)\s*(|B|KiB|MiB|GiB)", re.IGNORECASE)
_SIZES = {"": 1, "b": 1, "kib": 1024, "mib": 1024**2, "gib": 1024**3}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(|ms|s|m|h)")
_DURATIONS = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_MAX_PORT = 65535
_MAX_SIZE = 2**50
_MAX_DURATION = 10 * 365 * 24 * 3600.0
_ADDRESS = re.compile(r"(?:\[([^\[\]]+)\]|([^:\[\]]+)):([0-9]{1,5})")
_MAX_DIGITS = 15
_DIGITS = re.compile(r"[0-9]{1,15}")
_RATE = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?")
_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_MIN_SECRET = 16
ENGINES = ("sim", "local")
VOCABULARIES = ("o200k_harmony", "qwen3", "llama3", "cl100k_base")
REMOTE_ENGINES = ("chat", "llamacpp", "vllm", "sglang")
_URL = re.compile(r"[!-~]+")
_HOST = re.compile(r"[0-9A-Za-z._:%-]+")
_OF_A_MESSAGE = ("content-", "sec-websocket-", OWN_PREFIX)


def address(text: str) -> Address:
    """`HOST:PORT`; an IPv6 host stands in brackets."""
    match = _ADDRESS.fullmatch(text)
    if match is None or int(match[3]) > _MAX_PORT:
        raise ValueError("HOST:PORT is needed")
    return Address(match[1] or match[2], int(match[3]))


def maybe_address(text: str) -> Address | None:
    """`HOST:PORT`, or empty for nowhere."""
    return address(text) if text else None


def size(text: str) -> int:
    """A number of bytes."""
    match = _SIZE.fullmatch(text.strip())
    value = int(match[1]) * _SIZES[match[2].lower()] if match is not None and len(match[1]) <= _MAX_DIGITS else 0
    if not 0 < value <= _MAX_SIZE:
        raise ValueError("a size such as 128MiB is needed")
    return value


def duration(text: str) -> float:
    """A number of seconds."""
    match = _DURATION.fullmatch(text.strip())
    value = float(match[1]) * _DURATIONS[match[2]] if match is not None else 0.0
    if not 0 < value <= _MAX_DURATION:
        raise ValueError("a duration such as 55m or 30s is needed")
    return value


def limit(text: str) -> float:
    """A number of seconds, 0 for none."""
    return 0.0 if text.strip() == "0" else duration(text)


def count(text: str) -> int:
    """A positive number."""
    value = number(text) if _DIGITS.fullmatch(text) else 0
    if value == 0:
        raise ValueError("a positive number is needed")
    return value


def number(text: str) -> int:
    """A number, zero included."""
    if not _DIGITS.fullmatch(text):
        raise ValueError("a number is needed")
    return int(text)


def pace(text: str) -> float:
    """A rate; zero means as fast as possible."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise ValueError("a number of tokens is needed")
    return value


def one_of(*values: str) -> Callable[[str], str]:
    """One of these words."""

    def read(text: str) -> str:
        if text not in values:
            raise ValueError(f"one of {', '.join(values)} is needed")
        return text

    return read


def _is_host(text: str) -> bool:
    """Whether a host can be looked up at all: otherwise each and every request would fail, the start would not."""
    try:
        return bool(_HOST.fullmatch(text)) and text.encode().decode("idna").encode("idna") != b""
    except UnicodeError:  # a label that is empty, too long, or no IDNA
        return False


def base_url(text: str) -> str:
    """A base URL as SDKs take it."""
    parts = urlsplit(text)
    shaped = _URL.fullmatch(text) and parts.scheme in {"http", "https"} and _is_host(parts.hostname or "")
    if not shaped or parts.query or parts.fragment:
        raise ValueError("a base URL such as https://api.openai.com/v1 is needed")
    if parts.username is not None or parts.password is not None:
        raise ValueError("a URL without credentials is needed")
    _ = parts.port  # raises ValueError for a bad one
    return parts.geturl().rstrip("/")


def state(text: str) -> str:
    """`memory`, or the URL of a Redis."""
    if text != "memory":
        parse_redis_url(text)
    return text


def secret(text: str) -> bytes | None:
    """Any text that is long enough; empty for none."""
    if text and len(text) < _MIN_SECRET:
        raise ValueError(f"at least {_MIN_SECRET} characters are needed")
    try:
        return text.encode() or None
    except UnicodeEncodeError:  # its text quotes a character
        raise ValueError("text in UTF-8 is needed") from None


def word(text: str) -> str:
    """A name of printable characters; empty for none."""
    if not text.isprintable():
        raise ValueError("a name is needed")
    return text


def file(text: str) -> str:
    """Path of a file, which is read when the command starts; empty for none."""
    if not text.isprintable():
        raise ValueError("the path of a file is needed")
    return text


def engine(text: str) -> str:
    """`sim`, or the kind of an engine and its URL."""
    kind, _, url = text.partition(":")
    if text in ENGINES:
        return text
    if kind not in REMOTE_ENGINES:
        known = ", ".join([*ENGINES, *(f"{one}:URL" for one in REMOTE_ENGINES)])
        raise ValueError(f"one of {known} is needed")
    return f"{kind}:{base_url(url)}"


def vocabulary(text: str) -> str:
    """The name of a vocabulary, or the path of a file with one."""
    if text not in VOCABULARIES and not (text.endswith(".json") and text.isprintable()):
        raise ValueError(f"one of {', '.join(VOCABULARIES)}, or the path of a tokenizer.json is needed")
    return text


def names(text: str) -> tuple[str, ...]:
    """Comma-separated header names."""
    found = tuple(part.strip().lower() for part in text.split(",") if part.strip())
    if not all(_TOKEN.fullmatch(name) for name in found):
        raise ValueError("header names, separated by commas, are needed")
    if any(name in {*HOP_BY_HOP, "host", "expect"} or name.startswith(_OF_A_MESSAGE) for name in found):
        raise ValueError("headers that are not about one message or one connection are needed")
    return found


def some_of(*known: str) -> Callable[[str], tuple[str, ...]]:
    """Some of these words, comma-separated; `none` for none, since an empty environment variable counts as unset."""

    def read(text: str) -> tuple[str, ...]:
        found = tuple(part.strip() for part in text.split(",") if part.strip())
        if found == ("none",):
            return ()
        if not set(found) <= set(known):
            raise ValueError(f"some of {', '.join(known)}, or none, is needed")
        return found

    return read


def rates(text: str) -> dict[str, float]:
    """Names with a part of everything each, from 0 to 1."""
    found: dict[str, float] = {}
    for part in filter(None, map(str.strip, text.split(","))):
        name, _, rate = part.partition("=")
        if not _RATE.fullmatch(rate) or float(rate) > 1:
            raise ValueError("NAME=RATE is needed, with a rate from 0 to 1")
        found[name.strip()] = float(rate)
    return found
