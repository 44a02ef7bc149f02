"""Screening stage: whether a conversation may be answered.

The artifact is the verdict so far: which screen flagged the conversation, if any did. It stays flagged. Only new items
are looked at: what was clean before is clean. `extend(extend(e, a), b) == extend(e, a + b)`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from wire.errors import ApiError, invalid_request

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from upstream.stages.items import Item

_NOT_TEXT: Final = frozenset(
    {"id", "type", "role", "status", "call_id", "encrypted_content", "image_url", "file_data", "file_id", "data"},
)


class Screen(Protocol):
    """One classifier. It decides by the text alone, and the same each time."""

    name: str

    def flags(self, text: str) -> bool:
        """Whether the text may not be answered."""


@dataclass(frozen=True, slots=True)
class Screened:
    """The chain of screens, the name of the one that flagged the conversation, and how many items were looked at."""

    chain: tuple[Screen, ...] = field(default=(), repr=False)
    flagged: str = ""
    items: int = 0


EMPTY = Screened()
"""Screening that is off."""


class Verdict(NamedTuple):
    """What a chain says of an item; it is kept with the item (`Item.facts`)."""

    chain: tuple[Screen, ...]
    flagged: str


def extend(screened: Screened, items: Iterable[Item]) -> Screened:
    """The verdict after `items`."""
    if not screened.chain:
        return screened
    for item in items:
        if screened.flagged:
            break
        screened = replace(screened, flagged=_flagged(screened.chain, item), items=screened.items + 1)
    return screened


def check(screened: Screened, beside: str | None) -> None:
    """Raise `ApiError` (400 `invalid_prompt`) when the conversation, or what stands beside it, is flagged."""
    if screened.flagged or (beside and any(one.flags(beside) for one in screened.chain)):
        # Which screen it was is not told: it would help to get around it.
        raise _refused()


def texts(value: object) -> Iterator[str]:
    """Everything in a JSON value that is written for a reader."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for member in value:
            yield from texts(member)
    elif isinstance(value, dict):
        for name, member in value.items():
            if name not in _NOT_TEXT:
                yield from texts(member)


def _flagged(chain: tuple[Screen, ...], item: Item) -> str:
    kept = item.facts.verdict
    if kept is None or kept.chain is not chain:
        text = "\n".join((*texts(item.value()), item.hidden))
        flagged = next((screen.name for screen in chain if screen.flags(text)), "")
        kept = item.facts.verdict = Verdict(chain, flagged)
    return kept.flagged


def _refused() -> ApiError:
    return invalid_request(
        "Invalid prompt: this conversation was flagged by the content policy of this server.", code="invalid_prompt"
    )
