"""First stage: every item fits what stands before it.

The artifact remembers ids and open calls, never content. `extend(extend(e, a), b) == extend(e, a + b)`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from upstream.stages.items import CALLS, OUTPUTS, REFERENCE, Item
from upstream.stages.persistent import Index
from wire.errors import invalid_request

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


@dataclass(frozen=True, slots=True)
class Known:
    """Items that have an id, and the ids of calls that an output may answer."""

    items: Index[str, Item]
    calls: Index[str, str]


EMPTY = Known(Index(), Index())


def extend(known: Known, items: Iterable[Item]) -> Known:
    """What is known after `items`. Raises `ApiError` for an output without its call, or an id that stands twice."""
    fresh: dict[str, Item] = {}
    calls: dict[str, str] = {}
    for item in items:
        if item.id is not None:
            if item.id in fresh or item.id in known.items:
                raise invalid_request(
                    f"Duplicate item found with id {item.id}. Remove duplicate items from your input and try again.",
                    param="input",
                )
            fresh[item.id] = item
        if item.call_id is None:
            continue
        if item.type in CALLS:
            calls[item.call_id] = item.type
        elif item.type in OUTPUTS and item.call_id not in calls and item.call_id not in known.calls:
            raise invalid_request(
                f"No tool call found for {OUTPUTS[item.type]} with call_id {item.call_id}.", param="input"
            )
    return Known(known.items.plus(fresh), known.calls.plus(calls))


def dereferenced(items: Iterable[Item], lookup: Callable[[str], Item | None]) -> list[Item]:
    """The items with each reference replaced by what it names, and reasoning without its text by our own copy.

    Raises `ApiError` (404) for a reference to an item that this key does not have.
    """
    return [_as_sent(_dereferenced(item, lookup), item) for item in items]


def _as_sent(found: Item, item: Item) -> Item:
    return found if found is item or (found.raw == item.raw and not found.sent) else replace(found, sent=item.raw)


def _dereferenced(item: Item, lookup: Callable[[str], Item | None]) -> Item:
    if item.id is None:
        return item
    if item.type == REFERENCE:
        found = lookup(item.id)
        if found is None:
            raise invalid_request(f"Item with id '{item.id}' not found.", param="input", status=404)
        return found
    if item.type == "reasoning" and not item.hidden:
        return lookup(item.id) or item
    return item
