"""The contract between the server and what writes the answers.

An engine yields parts of items, one item after the other: `Start`, any number of `Delta`, `End`; and `Stop` at the
very end. It knows nothing of events, ids or transports. Closing the generator cancels the work.

A turn that the engine refuses ends with `ApiError` before any part, and the client gets that error with its status;
`Accepted` as the first part says that the turn runs although nothing is written yet.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from upstream.stages.items import Item
    from upstream.stages.persistent import Seq
    from upstream.stages.render import Tokens
    from upstream.stages.resolve import Tool

Kind = Literal["reasoning", "message", "function_call", "custom_tool_call"]


@dataclass(frozen=True, slots=True)
class Accepted:
    """The engine has taken the turn: from here on a failure is part of the answer."""


@dataclass(frozen=True, slots=True)
class Start:
    """An item begins. `name` and `namespace` are those of the called function."""

    kind: Kind
    name: str = ""
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class Delta:
    """Text of the running item: of a message, of a call's arguments or input, or of reasoning."""

    text: str
    tokens: int = 1


@dataclass(frozen=True, slots=True)
class Summary:
    """The summary of the running reasoning item, in pieces; only when one was asked for."""

    pieces: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class End:
    """The running item is whole.

    `tokens`, native uint32, are what the model wrote of it, which the conversation then keeps in place of its text's
    own: all since the item before, control tokens too, and before the first item the prompt's tail. Empty where the
    engine does not know them or has a vocabulary of its own.
    """

    tokens: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens as the engine counted them; they replace the server's own count."""

    input_tokens: int
    cached_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Stop:
    """The answer ends. With a reason it is incomplete, and the running item with it."""

    incomplete: Literal["max_output_tokens", "content_filter"] | None = None
    usage: Usage | None = None


Part = Accepted | Start | Delta | Summary | End | Stop


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
    """Of the whole context: instructions, tools and items."""
    tokens: Tokens = field(repr=False)
    """The context as tokens, for an engine that has the server's vocabulary."""
    temperature: float | None = None
    top_p: float | None = None
    parallel_tool_calls: bool | None = None
    owner: bytes = field(default=b"", repr=False)
    """Whose turn it is: what an engine keeps of one owner's may not serve another's, not even by its speed."""


class Engine(Protocol):
    """What writes answers."""

    @property
    def takes(self) -> Literal["items", "tokens"]:
        """What the model behind it is given: items (as messages), or token ids that the adapter renders."""

    def accepts(self, model: str) -> bool:
        """Whether the engine answers under this model name."""

    def generate(self, prompt: Prompt) -> AsyncGenerator[Part, None]:
        """Parts of the answer. Raises `ApiError` before the first one when the engine refuses the turn."""

    async def warm(self, prompt: Prompt) -> None:
        """Read the prompt into the engine's own cache, writing nothing; nothing where an engine has no such thing."""

    async def close(self) -> None:
        """Let go of everything held."""
