"""Rendering stage: the tokens that a model reads, one segment per item, made once.

The artifact is a list of segments, each the raw tokens of one item under a template and a vocabulary. Items are encoded
apart from each other, so that none is encoded twice. `extend(extend(e, a), b)` is `extend(e, a + b)`, and what was kept
is what would be made anew. Segments change by one rule only: when the user speaks, reasoning that has done its work
gives way to what the template leaves of it.

An item that a model wrote as tokens keeps these, since encoding its text again need not give them back.
What has no form as text (images, files) is counted at a flat rate; only an engine that needs tokens refuses it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from upstream.stages import meaning
from upstream.stages.persistent import Index, Seq
from upstream.stages.style import TOKEN, Style, encoded, size, written
from upstream.templates import named
from upstream.templates.parts import Past
from wire.errors import invalid_request

if TYPE_CHECKING:
    from collections.abc import Iterable

    from upstream.stages.head import Head
    from upstream.stages.items import Item

_WITHOUT_TEXT: Final = 1024
"""Tokens that an image or a file counts."""


@dataclass(frozen=True, slots=True)
class Segment:
    """One item as the model reads it. `raw` is its tokens as native uint32, `tokens` what they count."""

    raw: bytes = field(repr=False)
    tokens: int
    digest: bytes = field(repr=False)
    bare: bytes | None = field(default=None, repr=False)
    """Reasoning: the tokens that stay once it has done its work."""
    missing: tuple[str, ...] = ()
    """What of it cannot be shown as text, a sentence each."""


@dataclass(frozen=True, slots=True)
class Rendered:
    """All segments, their tokens, and the digest of all items in order."""

    segments: Seq[Segment] = field(default_factory=Seq)
    tokens: int = 0
    digest: bytes = field(default=meaning.NOTHING, repr=False)
    style: Style = field(default_factory=Style)
    open: str = ""
    """What the last segment left unclosed."""
    names: Index[str, str] = field(default_factory=Index, repr=False)
    """What the calls were called by."""
    thoughts: tuple[int, ...] = ()
    """Where reasoning is shown that may go."""
    answered: int = 0
    """How many of them, the first ones, an answer has followed."""

    @property
    def size(self) -> int:
        """Bytes of the tokens, at most."""
        return self.tokens * TOKEN

    def empty(self) -> Rendered:
        """The rendering of nothing in the same style."""
        return Rendered(style=self.style)


EMPTY = Rendered()


class Made(NamedTuple):
    """What is made of an item, and what it was made under; it is kept with the item (`Item.facts`)."""

    style: Style
    past: Past
    segment: Segment
    open: str
    name: str
    answers: bool


@dataclass(frozen=True, slots=True)
class Tokens:
    """A whole prompt as tokens, joined only when an engine asks for them."""

    head: Head
    rendered: Rendered

    def raw(self) -> bytes:
        """Native uint32. Raises `ApiError` for what cannot be shown as text."""
        if self.head.refusal is not None:
            raise self.head.refusal
        for segment in self.rendered.segments:
            if segment.missing:
                raise invalid_request(segment.missing[0], param="input")
        return b"".join([self.head.raw, *(segment.raw for segment in self.rendered.segments), self.tail()])

    def tail(self) -> bytes:
        """The end of it, which makes the model write: what it writes for its first item follows."""
        return tail(self.rendered)


def extend(rendered: Rendered, items: Iterable[Item]) -> Rendered:
    """The rendering with `items` appended."""
    template = named.NAMED[rendered.style.template]
    segments, fresh = rendered.segments, list[Segment]()
    tokens, digest, is_open = rendered.tokens, rendered.digest, rendered.open
    names: dict[str, str] = {}
    thoughts, answered = rendered.thoughts, rendered.answered
    for item in items:
        if item.role == "user" and thoughts:
            ends = len(thoughts) if template.DROPS_UNANSWERED else answered
            segments, fresh = segments.plus(fresh), []
            bare = {at: _bare(segments[at]) for at in thoughts[:ends]}
            tokens -= sum(segments[at].tokens - one.tokens for at, one in bare.items())
            segments, thoughts, answered = segments.with_changed(bare), thoughts[ends:], 0
        name = names.get(item.call_id) or rendered.names.get(item.call_id) if item.call_id is not None else None
        made = _made(item, rendered.style, Past(is_open, name or ""))
        if made.segment.bare is not None:
            thoughts = (*thoughts, len(segments) + len(fresh))
        if made.answers:
            answered = len(thoughts)
        if made.name and item.call_id is not None:
            names[item.call_id] = made.name
        fresh.append(made.segment)
        is_open, tokens = made.open, tokens + made.segment.tokens
        digest = meaning.chained(digest, made.segment.digest)
    return Rendered(
        segments.plus(fresh), tokens, digest, rendered.style, is_open, rendered.names.plus(names), thoughts, answered
    )


def shared(before: Rendered, after: Rendered) -> int:
    """Tokens that a rendering and one that it grew into both begin with."""
    if not before.thoughts or before.thoughts[0] in after.thoughts:
        return before.tokens
    return before.tokens - sum(before.segments[at].tokens for at in range(before.thoughts[0], len(before.segments)))


def tail(rendered: Rendered) -> bytes:
    """The tokens that make the model write."""
    return encoded(rendered.style, named.NAMED[rendered.style.template].tail(rendered.open))


def _made(item: Item, style: Style, past: Past) -> Made:
    kept = item.facts.made
    if kept is not None and kept.style == style and kept.past == past:
        return kept
    shown = named.NAMED[style.template].show(item, past)
    raw = written(style, item.tokens) if item.tokens else encoded(style, shown.runs)
    segment = Segment(
        raw,
        size(raw) + _WITHOUT_TEXT * len(shown.missing),
        meaning.digest(item),
        None if shown.bare is None else encoded(style, shown.bare),
        shown.missing,
    )
    item.facts.made = Made(style, past, segment, shown.open, shown.name, shown.answers)
    return item.facts.made


def _bare(segment: Segment) -> Segment:
    raw = segment.bare or b""
    return replace(segment, raw=raw, tokens=size(raw), bare=None)
