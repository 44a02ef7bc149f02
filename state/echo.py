"""How the items after a known base stand to the answer that was given there."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from state.heads import AnswerItem
    from state.match import Item

NEAR = ("reasoning_dropped", "output_reordered", "history_diverged")
"""What an echo that is not exact can be, the nearest first."""


def same(answer: AnswerItem, item: Item) -> bool:
    """Whether an item is the echo of an answered one."""
    if item.reference is not None:
        return item.reference == answer.reference
    return item.digest in answer.digests


def near(answer: Sequence[AnswerItem], items: list[Item]) -> str:
    """Why items that follow a known base are not the exact echo of its answer."""
    count = taken(answer, items)
    spoken = [item for item in answer if not item.reasoning]
    if count is not None and count < len(answer) and all(map(same, spoken, items)):
        return "reasoning_dropped"
    return "output_reordered" if count is not None else "history_diverged"


def taken(answer: Sequence[AnswerItem], items: list[Item]) -> int | None:
    """How many leading items are the answer in any order, reasoning perhaps left out; `None` when they are not."""
    left = list(range(len(answer)))
    count = 0
    for item in items:
        place = next((place for place in left if same(answer[place], item)), None)
        if place is None:
            break
        left.remove(place)
        count += 1
    return None if any(not answer[place].reasoning for place in left) else count
