"""What all templates are made of.

A segment is what one item is shown as. It is made of runs, each of which is one control token or ordinary text. Only
the former may become control tokens, so nothing that a user, a tool or a model wrote can open or close a message.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from upstream.stages.items import Item
    from upstream.stages.resolve import Tool

TEXTS: Final = {"input_text": "text", "output_text": "text", "text": "text", "refusal": "refusal"}
"""Kinds of content that are text, and the member that holds it."""
_SHOWN_OF_A_TYPE: Final = 64


class Run(NamedTuple):
    """Text, or one control token."""

    is_special: bool
    text: str
    is_tag: bool = False
    """A control token where the vocabulary has one of this name, and text where it has not."""


Segment = tuple[Run, ...]


class Past(NamedTuple):
    """All that a segment depends on beside its item."""

    open: str = ""
    """What the segments before left unclosed, in the template's own words."""
    name: str = ""
    """Of the call that an output answers: what it was called by."""


@dataclass(frozen=True, slots=True)
class Shown:
    """One item as a template shows it."""

    runs: Segment = field(default=(), repr=False)
    open: str = ""
    bare: Segment | None = field(default=None, repr=False)
    """Reasoning, which is shown for a while only: what stands in its place afterwards."""
    answers: bool = False
    """Whether it is an answer to the user, by which the reasoning before it has done its work."""
    name: str = ""
    """A call: the name that its output will need."""
    missing: tuple[str, ...] = ()
    """A sentence for each part that has no form as text and is not in `runs`."""


class Told(Protocol):
    """What a model is told beside the items."""

    @property
    def instructions(self) -> str | None:
        """Of this request."""

    @property
    def tools(self) -> tuple[Tool, ...]:
        """On offer."""

    @property
    def tool_choice(self) -> str | dict[str, Any]:
        """Which of them may or must be called."""

    @property
    def reasoning(self) -> dict[str, Any] | None:
        """How hard to think."""


class Template(Protocol):
    """One template. Its functions are total but for `head`."""

    CONTROLS: tuple[str, ...]
    """Control tokens that it cannot do without."""
    DROPS_UNANSWERED: bool
    """Whether reasoning goes when the user speaks even if no answer has followed it."""

    def head(self, told: Told) -> Segment:
        """What stands before all items. Raises `ApiError` for a choice of tools that a model cannot be made to take."""

    def show(self, item: Item, past: Past) -> Shown:
        """One item."""

    def tail(self, is_open: str, /) -> Segment:
        """What makes the model write."""

    def written(self, tokens: Sequence[int], special: Callable[[str], int]) -> list[int]:
        """Tokens that a model wrote for one item, the prompt's tail included, as they stand in a history."""


def merged(*runs: Run) -> Segment:
    """The runs with neighbours of ordinary text made one, as a tokenizer would see them."""
    made: list[Run] = []
    for run in runs:
        if made and not (run.is_special or run.is_tag or made[-1].is_special or made[-1].is_tag):
            made[-1] = Run(False, made[-1].text + run.text)
        elif run.text:
            made.append(run)
    return tuple(made)


def without_tags(segment: Segment) -> Segment:
    """The segment for a vocabulary that has none of its tags."""
    return merged(*(Run(run.is_special, run.text) for run in segment))


def plain(segments: Iterable[Segment]) -> str:
    """The segments as one text."""
    return "".join(run.text for segment in segments for run in segment)


def text_of(content: object) -> tuple[str, tuple[str, ...]]:
    """The text of a message's content or a call's output, and a sentence for each part that is none."""
    if not isinstance(content, list):
        return (content if isinstance(content, str) else ""), ()
    texts: list[str] = []
    missing: list[str] = []
    for part in content:
        kind = part.get("type") if isinstance(part, dict) else None
        if isinstance(kind, str) and kind in TEXTS:
            text = part.get(TEXTS[kind])
            texts.append(text if isinstance(text, str) else "")
        else:
            missing.append(no_part(kind))
    return "".join(texts), tuple(missing)


def output_of(item: Item) -> tuple[str, tuple[str, ...]]:
    """As `text_of`, of the output of a call; what is neither text nor parts is shown as JSON."""
    output = item.value().get("output")
    return text_of(output) if isinstance(output, list | str) else (json.dumps(output, ensure_ascii=False), ())


def no_part(kind: object) -> str:
    """The sentence for content that has none."""
    return f"Content of type '{str(kind)[:_SHOWN_OF_A_TYPE]}' cannot be shown to this engine."


def no_form(item: Item) -> str:
    """The sentence for an item that has no form at all."""
    return f"Items of type '{item.type[:_SHOWN_OF_A_TYPE]}' cannot be shown to this engine."
