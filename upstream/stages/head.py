"""What a model is told beside the items of a conversation, as tokens."""

from __future__ import annotations

import operator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from upstream.stages.style import Style, encoded, size
from upstream.templates import named
from wire.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from upstream.stages.resolve import Tool


@dataclass(frozen=True, slots=True)
class Told:
    """What stands beside the items (`upstream.templates.parts.Told`)."""

    instructions: str | None = field(default=None, repr=False)
    tools: tuple[Tool, ...] = ()
    tool_choice: str | dict[str, Any] = "auto"
    reasoning: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Head:
    """The tokens before all items, and what they were made of."""

    style: Style
    told: Told = field(repr=False)
    raw: bytes = field(repr=False)
    refusal: ApiError | None = field(default=None, compare=False)
    """Why an engine cannot do what the request says beside the items."""

    @property
    def tokens(self) -> int:
        """Their number."""
        return size(self.raw)

    def fits(self, style: Style, told: Told) -> bool:
        """Whether it is the head of this."""
        # Tools by identity: equal ones may still be written in two ways, since 1 == True.
        return (
            self.style == style
            and (self.told.instructions, self.told.tool_choice) == (told.instructions, told.tool_choice)
            and self.told.reasoning == told.reasoning
            and len(self.told.tools) == len(told.tools)
            and all(map(operator.is_, self.told.tools, told.tools))
        )


def head(style: Style, told: Told, known: Iterable[Head] = ()) -> Head:
    """What stands before the items: one that is known, where it is of the same."""
    for one in known:
        if one.fits(style, told):
            return one
    template = named.NAMED[style.template]
    try:
        return Head(style, told, encoded(style, template.head(told)))
    except ApiError as refusal:
        # Other engines may be able to: there it counts as it would without the choice.
        return Head(style, told, encoded(style, template.head(replace(told, tool_choice="auto"))), refusal)
