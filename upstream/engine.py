"""The contract between the server and what writes the answers.

An engine yields parts of items, one item after the other: `Start`, any number of `Delta`, `End`; and `Stop` at the
very end. It knows nothing of events, ids or transports. Closing the generator cancels the work.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from upstream.items import Item
    from upstream.persistent import Seq
    from upstream.resolve import Tool

Kind = Literal["reasoning", "message", "function_call"]


@dataclass(frozen=True, slots=True)
class Start:
    """An item begins. `name` and `namespace` are those of the called function."""

    kind: Kind
    name: str = ""
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class Delta:
    """Text of the running item: of a message, of a call's arguments, or of reasoning."""

    text: str
    tokens: int = 1


@dataclass(frozen=True, slots=True)
class Summary:
    """The summary of the running reasoning item, in pieces; only when one was asked for."""

    pieces: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class End:
    """The running item is whole."""


@dataclass(frozen=True, slots=True)
class Stop:
    """The answer ends. With a reason it is incomplete, and the running item with it."""

    incomplete: Literal["max_output_tokens", "content_filter"] | None = None


Part = Start | Delta | Summary | End | Stop


@dataclass(frozen=True, slots=True)
class Prompt:
    """All that an engine is told of a turn."""

    model: str
    instructions: str | None = field(repr=False)
    items: Seq[Item] = field(repr=False)
    tools: tuple[Tool, ...]
    tool_choice: str | dict[str, Any]
    text: dict[str, Any]
    reasoning: dict[str, Any] | None
    max_output_tokens: int | None
    digest: bytes
    """Of the whole context as the model reads it: instructions, tools and items."""


class Engine(Protocol):
    """What writes answers."""

    def accepts(self, model: str) -> bool:
        """Whether the engine answers under this model name."""

    def generate(self, prompt: Prompt) -> AsyncGenerator[Part, None]:
        """Parts of the answer."""

    async def close(self) -> None:
        """Let go of everything held."""
