"""How the answers under a template are read: the tokens that end them, and what makes items of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from upstream.engines import read_chatml, read_harmony
from upstream.engines.read_chatml import ChatML
from upstream.engines.read_harmony import Harmony
from upstream.templates import chatml, harmony

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from upstream.engines.reader import Reader
    from upstream.stages.resolve import Tool
    from upstream.tokens.vocabulary import Vocabulary

HARMONY: Final = "harmony"
CHATML: Final = "chatml"


@dataclass(frozen=True, slots=True)
class Reading:
    """Of one template over one vocabulary."""

    name: str
    stops: tuple[int, ...]
    """Tokens that end an answer."""
    opening: int
    """The token that begins every message."""
    reader: Callable[[Mapping[str, Tool], bytes], Reader] = field(repr=False)
    """A reader of one answer, of these tools, to a prompt that ended with these tokens."""


_FAMILIES: dict[str, tuple[tuple[str, ...], str, type[Harmony | ChatML]]] = {
    HARMONY: (read_harmony.STOPS, harmony.START, Harmony),
    CHATML: (read_chatml.STOPS, chatml.START, ChatML),
}


def reading(name: str, vocabulary: Vocabulary) -> Reading:
    """That of the template of this name. Raises `ValueError` when there is none, or the vocabulary lacks its tokens."""
    if name not in _FAMILIES:
        raise ValueError(f"unknown template {name!r}: {', '.join(_FAMILIES)}")
    stops, opening, kind = _FAMILIES[name]
    return Reading(name, tuple(map(vocabulary.special, stops)), vocabulary.special(opening), partial(kind, vocabulary))
