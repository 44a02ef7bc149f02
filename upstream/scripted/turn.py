"""One turn as it arrived, and what the model would see of it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from wire.extensions import ENVELOPE_FIELD
from wire.split import splice

if TYPE_CHECKING:
    from wire.errors import ApiError

Json = dict[str, Any]
Transport = Literal["http", "ws"]
Outcome = Literal["running", "completed", "incomplete", "failed", "error", "refused", "broken"]

NOT_ENVELOPE = frozenset({"input", "type", "stream", "stream_id", "background", "previous_response_id", ENVELOPE_FIELD})
"""Members that belong to the way of a turn, not to what is asked for."""


@dataclass(frozen=True, slots=True)
class ContextItem:
    """One item as the model sees it. An `output` item is one that this upstream made.

    `other` is the form of the same item in the terminal event, where it differs from the one in `output_item.done`.
    """

    raw: bytes
    output: bool = False
    other: bytes = b""

    @property
    def value(self) -> Json:
        """The parsed item."""
        value: Json = json.loads(self.raw)
        return value


@dataclass(slots=True)
class Turn:
    """One `response.create` or POST, with what was made of it. Numbers count from 1; connection 0 is HTTP."""

    number: int
    transport: Transport
    connection: int
    raw: bytes
    headers: dict[str, str] = field(default_factory=dict)
    size: int = 0
    """Bytes of the body as it came over the wire, which may have been compressed."""
    members: dict[str, bytes] = field(default_factory=dict)
    """Top-level members as received, digests of the envelope resolved."""
    context: tuple[ContextItem, ...] = ()
    chain: bytes = b""
    """What the digest of `context`, as it was sent, is made of (`state.context`)."""
    own: tuple[ContextItem, ...] = ()
    """The items of the frame itself: the tail of `context`."""
    response_id: str = ""
    output: list[ContextItem] = field(default_factory=list)
    resumes: bool = False
    """Whether it came as `response.append`; its members are then those of the whole request."""
    outcome: Outcome = "running"
    error: ApiError | None = None
    remarks: list[str] = field(default_factory=list)
    """What a strict reader of the documentation would object to, though services tolerate it."""
    events_sent: int = 0

    @property
    def body(self) -> Json:
        """The parsed body."""
        body: Json = json.loads(splice(self.members.items()))
        return body

    @property
    def envelope(self) -> Json:
        """All of the body that is neither input nor way."""
        return {name: json.loads(raw) for name, raw in self.members.items() if name not in NOT_ENVELOPE}

    @property
    def lane(self) -> str:
        """The `stream_id`; empty for the default lane."""
        return self._text("stream_id")

    @property
    def parent(self) -> str:
        """The `previous_response_id` as received; empty without one."""
        return self._text("previous_response_id")

    @property
    def stored(self) -> bool:
        """Whether the response is kept beyond the connection: unless `store` says false."""
        return self.members.get("store", b"true").strip() != b"false"

    def _text(self, name: str) -> str:
        value = json.loads(self.members.get(name, b"null"))
        return value if isinstance(value, str) else ""
