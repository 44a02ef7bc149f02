"""The pipeline: a conversation is the fold of its items through the stages.

Plain HTTP is `extend(EMPTY, all_items)`; a continuation is `extend(kept, new_items)`. There is no other way in, so
what is kept and what is computed anew cannot differ: `extend(extend(EMPTY, a), b) == extend(EMPTY, a + b)`.
A compaction item folds everything before it into what it brings (upstream.stages.compaction).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from upstream.stages import compaction, proof, render, resolve, screen, validate
from upstream.stages.persistent import Seq

if TYPE_CHECKING:
    from collections.abc import Sequence

    from upstream.stages.head import Head
    from upstream.stages.items import Item


@dataclass(frozen=True, slots=True)
class Context:
    """The artifacts of all stages over the same items. Immutable; extending shares what is already there."""

    items: Seq[Item] = field(default_factory=Seq)
    known: validate.Known = validate.EMPTY
    resolved: resolve.Resolved = resolve.EMPTY
    rendered: render.Rendered = render.EMPTY
    size: int = 0
    """Bytes of the items, and of the tokens that a model wrote of them."""
    screened: screen.Screened = screen.EMPTY
    proof: bytes = field(default=proof.NONE, repr=False)
    head: Head | None = field(default=None, compare=False)
    """What stood beside the items when they were last shown."""

    def under(self, resolved: resolve.Resolved) -> Context:
        """The same conversation under the model and tools of another request."""
        return self if resolved == self.resolved else replace(self, resolved=resolved)


EMPTY = Context()


def extend(context: Context, items: Sequence[Item]) -> Context:
    """The context with `items` appended. Raises `ApiError` when one of them does not fit; `context` stays usable."""
    begin = 0
    for at, item in enumerate(items):
        if item.type == compaction.TYPE:
            context = _anew(_extended(context, items[begin:at]), item)
            begin = at + 1
    return _extended(context, items[begin:])


def bare(context: Context) -> Context:
    """No more of a context than its items, and what does not follow from them: to be folded anew."""
    for item in context.items:
        item.facts.forget()
    known = validate.Known(validate.EMPTY.items, context.known.calls)
    return replace(
        EMPTY,
        items=context.items,
        known=known,
        rendered=context.rendered.empty(),
        size=context.size,
        screened=context.screened,
        proof=context.proof,
    )


def refolded(empty: Context, kept: Context) -> Context:
    """The whole context of a bare one."""
    folded = _extended(replace(empty, known=kept.known), list(kept.items))
    flagged = folded.screened.flagged or kept.screened.flagged
    return replace(folded, screened=replace(folded.screened, flagged=flagged), proof=kept.proof)


def _extended(context: Context, items: Sequence[Item]) -> Context:
    return Context(
        items=context.items.plus(items),
        known=validate.extend(context.known, items),
        resolved=resolve.extend(context.resolved, items),
        rendered=render.extend(context.rendered, items),
        size=context.size + sum(len(item.raw) + len(item.tokens) + len(item.sent) for item in items),
        screened=screen.extend(context.screened, items),
        proof=proof.extend(context.proof, items),
        head=context.head,
    )


def _anew(context: Context, item: Item) -> Context:
    """The context that begins with a compaction: what it stands for is replaced by what it brings."""
    items = compaction.replaced(context.items, context.rendered.segments, item)
    # Calls are remembered: an output of one that is only summed up may still come.
    known = validate.extend(validate.Known(validate.EMPTY.items, context.known.calls), [item])
    resolved = resolve.Resolved(context.resolved.model, context.resolved.offer)
    begun = replace(EMPTY, known=known, resolved=resolved, rendered=context.rendered.empty(), head=context.head)
    folded = _extended(begun, items)
    # What is brought was screened and proven when it came; the verdict outlives what it was about.
    return replace(folded, screened=context.screened, proof=proof.extend(context.proof, [item]))
