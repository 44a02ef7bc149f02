"""What a request asks for beside its input, worked out: text, tools, and how the response object shows them.

A turn that resumes a response (`response.append`) takes over what it does not name: of that nothing is read, checked,
counted, hashed or encoded again. What it names replaces what was; `null` takes it away.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import msgspec

from upstream.problems import unsupported
from upstream.turns.request import Request, read_changes
from wire.response import ECHOED, shown, shown_instructions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from upstream.stages.pipeline import Context
    from upstream.stages.resolve import Offer


@dataclass(frozen=True, slots=True)
class Text:
    """The instructions, read: their digest, and how the response object shows them."""

    of: str | None = field(repr=False)
    digest: bytes = field(repr=False)
    shown: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Asked:
    """What stays of a request: all of it but the input and what belongs to its turn alone."""

    request: Request = field(repr=False)
    text: Text = field(repr=False)
    offer: Offer = field(repr=False)
    shown: Mapping[str, bytes] = field(repr=False)

    @property
    def digest(self) -> bytes:
        """What stands for instructions and tools in a prompt's digest."""
        return self.text.digest + self.offer.digest

    @property
    def size(self) -> int:
        """Bytes that it takes, but for the tools."""
        return len(self.text.of or "") + sum(len(raw) for name, raw in self.shown.items() if name != "tools")


@dataclass(frozen=True, slots=True)
class Kept:
    """What a lane needs to continue a response, and to resume it: the conversation, and what was asked."""

    id: str
    context: Context = field(repr=False)
    asked: Asked = field(repr=False)


@dataclass(frozen=True, slots=True)
class Resumed:
    """A request made of an earlier one: what was worked out for that, and the names of members that came anew."""

    before: Asked = field(repr=False)
    given: frozenset[str]
    request: Request = field(repr=False)

    @property
    def chooses_anew(self) -> bool:
        """Whether a choice of tools has to be looked at again: more tools may have come, none can have gone."""
        return not self.given.isdisjoint({"tools", "tool_choice"})


def asked(request: Request, offer: Offer, resumed: Resumed | None = None) -> Asked:
    """What a request asks, its tools being read already."""
    if resumed is None:
        text = _text(request.instructions)
        return Asked(_lasting(request), text, offer, _shown(request, text, offer))
    before, given = resumed.before, resumed.given
    text = _text(request.instructions) if "instructions" in given else before.text
    kept = _shown(request, text, offer) if given & ECHOED else before.shown
    return Asked(_lasting(request), text, offer, kept) if given else before


def resume(before: Asked, members: dict[str, bytes], response_id: str) -> Resumed:
    """The request that goes on from `response_id`. Raises `ApiError` for members that may not be, or not be so."""
    if "previous_response_id" in members:
        raise unsupported("previous_response_id", "The response to append to is named by 'response_id'.")
    request = read_changes(before.request, members)
    fields = msgspec.structs.replace(request.fields, previous_response_id=response_id)
    return Resumed(before, frozenset(members.keys() - {"input"}), replace(request, fields=fields))


def _lasting(request: Request) -> Request:
    fields = msgspec.structs.replace(
        request.fields, previous_response_id=None, stream=None, stream_id=None, generate=None
    )
    return replace(request, fields=fields, input=b"")


def _text(instructions: str | None) -> Text:
    encoded = (instructions or "").encode(errors="surrogatepass")
    digest = hashlib.blake2b(encoded, digest_size=16).digest()
    return Text(instructions, digest, shown_instructions(instructions))


def _shown(request: Request, text: Text, offer: Offer) -> Mapping[str, bytes]:
    return shown(request.fields, instructions=text.shown, tools=offer.echo)
