"""The form in which a response is stored outside of the process: what the response itself is, and its turn.

A conversation is folded again from the turns on its path. A turn that brings the whole conversation begins it anew,
with what a fold of its items alone could not know: calls that were summed up, and the verdict of the screens.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import msgspec

from upstream.kept.store import Stored
from upstream.stages import pipeline
from upstream.stages.items import Item
from upstream.stages.persistent import Index
from upstream.stages.validate import Known

if TYPE_CHECKING:
    from collections.abc import Sequence

    from upstream.kept.lineage import Path
    from upstream.stages.pipeline import Context


class _Item(msgspec.Struct, array_like=True):
    raw: bytes
    type: str
    id: str | None
    role: str | None
    call_id: str | None
    name: str | None
    hidden: bytes
    tokens: bytes


class _Whole(msgspec.Struct, array_like=True):
    items: list[_Item]
    calls: dict[str, str]
    flagged: str
    screened: int


class Turn(msgspec.Struct, array_like=True):
    """One turn: what its request brought and what was answered."""

    input: list[_Item]
    output: list[_Item]
    whole: _Whole | None = None
    style: str = ""
    """What the tokens that a model wrote are tokens of."""

    def items(self, empty: Context) -> list[Item]:
        """Those of the request, then those of the answer, for conversations that begin with `empty`."""
        return self.read([*self.input, *self.output], empty)

    def read(self, items: Sequence[_Item], empty: Context) -> list[Item]:
        """These of its items. Tokens of another style are none here."""
        same = self.style == _style(empty)
        return [_read(item, item.tokens if same else b"") for item in items]


class Record(msgspec.Struct, array_like=True):
    """One response: its object, what it continued, and where its turn lies."""

    response: bytes
    parent: str | None
    path: tuple[tuple[bytes, int], ...]


_ENCODER: Final = msgspec.msgpack.Encoder()
_TURN: Final = msgspec.msgpack.Decoder(Turn)
_RECORD: Final = msgspec.msgpack.Decoder(Record)


def encode_record(stored: Stored, path: Path) -> bytes:
    """The response itself."""
    return _ENCODER.encode(Record(stored.response, stored.parent, path))


def encode_turn(stored: Stored, *, whole: bool) -> bytes:
    """Its turn."""
    context = stored.context
    begins = None
    if whole:
        calls, screened = context.known.calls.as_dict(), context.screened
        begins = _Whole([_written(item) for item in context.items], calls, screened.flagged, screened.items)
    brought, answered = [_written(item) for item in stored.input], [_written(item) for item in stored.output]
    return _ENCODER.encode(Turn(brought, answered, begins, _style(context)))


def decode_record(data: bytes) -> Record:
    """As it was encoded. Raises `msgspec.DecodeError`."""
    return _RECORD.decode(data)


def decode_turn(data: bytes) -> Turn:
    """As it was encoded. Raises `msgspec.DecodeError`."""
    return _TURN.decode(data)


def stored_from(response_id: str, owner: bytes, record: Record, turns: Sequence[Turn], empty: Context) -> Stored:
    """The response as this server keeps it, its conversation folded anew from `empty`. Raises `ApiError`."""
    context = empty
    for turn in turns:
        if turn.whole is None:
            context = pipeline.extend(context, turn.items(empty))
        else:
            context = _begun(turn.whole, turn.read(turn.whole.items, empty), empty)
    return replace(told_from(response_id, owner, record, turns[-1]), context=context)


def told_from(response_id: str, owner: bytes, record: Record, turn: Turn) -> Stored:
    """The response without its conversation: enough to tell of it, not to continue it."""
    brought, written = (tuple(turn.read(items, pipeline.EMPTY)) for items in (turn.input, turn.output))
    return Stored(response_id, owner, record.parent, record.response, brought, written, pipeline.EMPTY)


def _style(context: Context) -> str:
    return " ".join((sys.byteorder, *context.rendered.style))


def _begun(whole: _Whole, items: Sequence[Item], empty: Context) -> Context:
    known = Known(empty.known.items, Index(whole.calls))
    context = pipeline.extend(replace(empty, known=known), items)
    screened = replace(context.screened, flagged=whole.flagged, items=whole.screened)
    return replace(context, screened=screened)


def _written(item: Item) -> _Item:
    hidden = item.hidden.encode(errors="surrogatepass")
    return _Item(item.raw, item.type, item.id, item.role, item.call_id, item.name, hidden, item.tokens)


def _read(item: _Item, tokens: bytes) -> Item:
    hidden = item.hidden.decode(errors="surrogatepass")
    return Item(item.raw, item.type, item.id, item.role, item.call_id, item.name, hidden, tokens)
