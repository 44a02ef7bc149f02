"""What may not leave in a log line, and how it is taken out. Pure.

Two nets, because either alone has holes: keys that name a credential or content lose their value whatever it is, and
text loses what looks like a credential wherever it stands. A log call never fails on what it is given.
"""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import islice
from typing import Final

REDACTED: Final = "[redacted]"
MAX_TEXT: Final = 512
"""Characters kept of a text."""
MAX_PARTS: Final = 32
"""Elements kept of a nested list or mapping."""
MAX_KEY: Final = 64
MAX_DEPTH: Final = 4
MAX_SCAN: Final = 16_384
"""Characters of a text that are looked at; the rest is cut before the search for credentials."""

_SECRET_KEY: Final = re.compile(
    r"(^|_)(authorization|cookies?|secrets?|password|passwd|api_?keys?|token|credentials?|bearer|private_key)($|_)"
)
_CONTENT_KEY: Final = re.compile(
    r"arguments|body|content|data|delta|encrypted_content|frame|headers|input|instructions|items?|messages?|metadata"
    r"|output|params|payload|prompt|query|raw|summary|text|tools"
)
_NAME: Final = re.compile(r"[\w.-]+", re.ASCII)
"""What passes for a key; anything else may be content that was made one."""
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

# Nearly every text holds none of these, and only the others pay for the patterns.
_MARKS: Final = ("exception=", "://", "bearer", "basic", "sk-", "xai-", "gsk_")
_IN_TEXT: Final = (
    # Reprs of failed tasks carry the text of their exception, which may quote anything.
    (re.compile(r"exception=(\w[\w.]*)\(.*", re.DOTALL), r"exception=\1"),
    (re.compile(r"(\w://)[^/\s@]*@"), rf"\1{REDACTED}@"),
    (re.compile(r"(\w://[^\s?\"'<>]*)\?[^\s\"'<>]*"), rf"\1?{REDACTED}"),
    (re.compile(r"\b(bearer|basic)\s+\S+", re.IGNORECASE), rf"\1 {REDACTED}"),
    (re.compile(r"\b(sk-|xai-|gsk_)[\w-]{8,}"), REDACTED),
)


@lru_cache(maxsize=512)
def secret(key: str) -> bool:
    """True when a value under this key may be a credential or content, judged by the key alone."""
    if not _NAME.fullmatch(key):
        return True
    plain = _CAMEL.sub("_", key).replace("-", "_").lower()
    return _CONTENT_KEY.fullmatch(plain) is not None or _SECRET_KEY.search(plain) is not None


def text(given: str) -> str:
    """The text without credentials, at most `MAX_TEXT` characters, encodable as UTF-8."""
    kept = given[:MAX_SCAN]
    if not kept.isascii():
        kept = kept.encode("utf-8", "replace").decode()
    lower = kept.lower()
    if [mark for mark in _MARKS if mark in lower]:
        for pattern, replacement in _IN_TEXT:
            kept = pattern.sub(replacement, kept)
    return kept if len(kept) <= MAX_TEXT else kept[: MAX_TEXT - 1] + "…"


def value(given: object, depth: int = 0) -> object:
    """A JSON value that is safe to write: an unknown type becomes its name, never its repr."""
    safe: object = f"<{type(given).__name__}>"
    if given is None or isinstance(given, bool | float):
        safe = given
    elif isinstance(given, str):
        safe = text(given)
    elif isinstance(given, int):
        safe = given if -(2**63) <= given < 2**64 else text(hex(given))
    elif isinstance(given, bytes | bytearray):
        safe = f"<{len(given)} bytes>"
    elif depth < MAX_DEPTH and isinstance(given, Mapping):
        safe = _pairs(islice(given.items(), MAX_PARTS), depth + 1)
    elif depth < MAX_DEPTH and isinstance(given, list | tuple):
        safe = [value(part, depth + 1) for part in given[:MAX_PARTS]]
    return safe


def event(given: Mapping[str, object]) -> dict[str, object]:
    """All fields of a log event, made safe."""
    return _pairs(given.items(), 0)


def _pairs(pairs: Iterable[tuple[object, object]], depth: int) -> dict[str, object]:
    safe: dict[str, object] = {}
    for key, part in pairs:
        if not isinstance(key, str) or len(key) > MAX_KEY or secret(key):
            safe[_name(key)] = REDACTED
        elif part is None or part is True or part is False:
            safe[key] = part
        else:
            safe[key] = value(part, depth)
    return safe


def _name(key: object) -> str:
    return key if isinstance(key, str) and len(key) <= MAX_KEY and _NAME.fullmatch(key) else f"<{type(key).__name__}>"
