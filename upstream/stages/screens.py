"""The screens there are: patterns, the linear model, and whatever other packages bring.

A package adds one by an entry point of the group `deltawire.screens` that names a callable without arguments.
"""

from __future__ import annotations

import re
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Final

from upstream.stages import linear

if TYPE_CHECKING:
    from upstream.stages.screen import Screen

GROUP: Final = "deltawire.screens"
TEST_PHRASE: Final = "deltawire-screening-test-phrase"
"""Flagged always, so that an operator can see screening at work."""
_PATTERNS: Final = (
    re.escape(TEST_PHRASE),
    r"\b(?:ignore|disregard|forget) (?:all |the |your |my )*(?:previous|prior|above|earlier) (?:instruction|rule)s\b",
    r"\b(?:reveal|print|repeat|show) (?:me )?(?:your|the) (?:hidden |secret |full )?system prompt\b",
)


class Patterns:
    """Flags text that one of the patterns is found in."""

    name = "patterns"

    def __init__(self, patterns: tuple[str, ...] = _PATTERNS) -> None:
        self._pattern = re.compile("|".join(f"(?:{pattern})" for pattern in patterns), re.IGNORECASE)

    def flags(self, text: str) -> bool:
        """Whether a pattern is found."""
        return self._pattern.search(text) is not None


def chain(wanted: str) -> tuple[Screen, ...]:
    """The screens of `--screen`: none for `off`; for `on` ours, then those of other packages by name."""
    if wanted == "off":
        return ()
    others = sorted(entry_points(group=GROUP), key=lambda entry: entry.name)
    return (Patterns(), linear.shipped(), *(entry.load()() for entry in others))
