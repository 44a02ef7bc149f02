"""Numbers that an engine tells. They are charged, kept and waited for, so what cannot be true is not taken."""

from __future__ import annotations

from typing import Final

from upstream.engine import Usage
from upstream.engines.chains import packed
from upstream.engines.failures import broken_off

_MOST_TOKENS: Final = 10**9
_MOST_SLOTS: Final = 4096


def usage(read: object, cached: object, wrote: object, thought: object) -> Usage | None:
    """Tokens of a turn; those that are not told (None) are 0.

    None when one of them is no number of tokens: then the server's own count stands. Cached ones are part of those that
    were read, thought ones of those that the model wrote.
    """
    numbers = [_whole(0 if told is None else told, 0, _MOST_TOKENS) for told in (read, cached, wrote, thought)]
    found = [number for number in numbers if number is not None]
    if len(found) < len(numbers):
        return None
    return Usage(found[0], min(found[:2]), found[2], min(found[2:]))


def slots(told: object) -> int:
    """How many prompts an engine reads at once: 1 when it does not say."""
    return _whole(told, 1, _MOST_SLOTS) or 1


def token_ids(told: object) -> bytes:
    """Tokens as they are kept. Raises `ApiError` for what are none."""
    if not isinstance(told, list):
        raise broken_off()
    try:
        return packed(told)
    except (OverflowError, TypeError):
        raise broken_off() from None


def _whole(told: object, least: int, most: int) -> int | None:
    return told if isinstance(told, int) and not isinstance(told, bool) and least <= told <= most else None
