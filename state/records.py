"""A stored head as a record for Redis: msgpack, versioned, digests and the response id, no content.

Only a head of a stored response is worth a record: any other continues on the link that holds it and nowhere else.
"""

from typing import Annotated, Final, Literal

import msgpack
import msgspec

from state.context import START
from state.digest import SIZE
from state.envelope import Envelope
from state.heads import AnswerItem, Head, Prefix

VERSION: Final = 2
"""First member of every record. One of another version is not read: that turn is full, and stored anew."""

_Digest = Annotated[bytes, msgspec.Meta(min_length=SIZE, max_length=SIZE)]
_Context = Annotated[bytes, msgspec.Meta(min_length=len(START), max_length=len(START))]
_Count = Annotated[int, msgspec.Meta(ge=0)]


class Unreadable(ValueError):
    """Bytes that are no record of this version, to be treated as if nothing were there. Carries no content."""


class _Prefix(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    length: _Count
    digest: _Digest


class _Answer(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    digests: Annotated[tuple[_Digest, ...], msgspec.Meta(min_length=1)]
    reference: _Digest | None
    reasoning: bool


class _Record(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    version: Literal[2]
    response_id: Annotated[str, msgspec.Meta(min_length=1)]
    envelope: tuple[tuple[str, _Digest], ...]
    base_count: _Count
    base: _Digest
    chain: _Digest
    other_chain: _Digest | None
    answer: tuple[_Answer, ...]
    prefix: _Prefix | None
    turns: _Count
    answered: bool
    base_context: _Context | None
    context: _Context | None


def encode(head: Head) -> bytes:
    """The record of a head. Raises ValueError when it is not stored, or its id is not Unicode."""
    if not head.stored:
        raise ValueError("only a head of a stored response has a record")
    prefix = head.prefix
    packed: bytes = msgpack.packb(
        (
            VERSION,
            head.response_id,
            head.envelope.fields,
            head.base_count,
            head.base,
            head.chain,
            head.other_chain,
            [(item.digests, item.reference, item.reasoning) for item in head.answer],
            None if prefix is None else (prefix.length, prefix.digest),
            head.turns,
            head.answered,
            head.base_context,
            head.context,
        )
    )
    return packed


def decode(tenant: bytes, data: bytes) -> Head:
    """The head of a record, held by no link. Raises `Unreadable` for anything but a whole record of this version."""
    try:
        record = msgspec.convert(msgpack.unpackb(data), _Record)
    except (ValueError, TypeError, RecursionError, msgpack.UnpackException):  # some quote what they were given
        raise Unreadable("no record of this version") from None
    return Head(
        tenant=tenant,
        response_id=record.response_id,
        stored=True,
        envelope=Envelope(record.envelope),
        base_count=record.base_count,
        base=record.base,
        chain=record.chain,
        answer=tuple(AnswerItem(item.digests, item.reference, reasoning=item.reasoning) for item in record.answer),
        other_chain=record.other_chain,
        prefix=None if record.prefix is None else Prefix(record.prefix.length, record.prefix.digest),
        link=None,
        turns=record.turns,
        answered=record.answered,
        base_context=record.base_context,
        context=record.context,
    )
