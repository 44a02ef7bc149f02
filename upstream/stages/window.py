"""A model's window: what of a conversation is shown when all of it does not fit.

The conversation itself stays whole; what a model is shown of it is a function of it, so that however a history came,
the same part is shown.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from upstream.stages import render
from upstream.stages.items import OUTPUTS
from upstream.stages.persistent import Seq
from wire.errors import ApiError, invalid_request

if TYPE_CHECKING:
    from upstream.stages.items import Item
    from upstream.stages.pipeline import Context

_FIRST = frozenset({"system", "developer"})


def fitted(context: Context, *, beside: int, window: int, truncation: str | None) -> Context:
    """The context as it is shown in a window of `window` tokens (0: without end), `beside` of which are taken.

    With `truncation` `auto` the oldest items are left out, messages of systems and developers last. Raises `ApiError`
    `context_length_exceeded` without it, or when not even the newest item fits.
    """
    if not window or context.rendered.tokens + beside <= window:
        return context
    if truncation != "auto":
        raise _exceeded(window)
    items = list(context.items)
    kept = _newest(items, [one.tokens for one in context.rendered.segments], window - beside)
    if not kept or kept[-1] is not items[-1]:
        raise _exceeded(window)
    return replace(context, items=Seq(kept), rendered=render.extend(context.rendered.empty(), kept))


def _newest(items: list[Item], sizes: list[int], room: int) -> list[Item]:
    standing = {at for at, item in enumerate(items) if item.role in _FIRST}
    room -= sum(sizes[at] for at in standing)
    if room < 0:  # then they leave like all others
        room += sum(sizes[at] for at in standing)
        standing = set()
    begin = len(items)
    while begin > 0 and (begin - 1 in standing or sizes[begin - 1] <= room):
        begin -= 1
        room -= 0 if begin in standing else sizes[begin]
    kept = [item for at, item in enumerate(items) if at >= begin or at in standing]
    calls = {item.call_id for item in kept if item.type not in OUTPUTS}
    # An output whose call is left out would be one of nothing.
    return [item for item in kept if item.type not in OUTPUTS or item.call_id in calls]


def _exceeded(window: int) -> ApiError:
    return invalid_request(
        f"Your input exceeds the context window of this model ({window} tokens). "
        "Please adjust your input and try again.",
        param="input",
        code="context_length_exceeded",
    )
