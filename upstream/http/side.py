"""Requests beside the turns: what a conversation is counted as, and a conversation in less."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

import msgspec

from upstream.http import listing
from upstream.stages import compaction, pipeline
from upstream.turns.request import read_request
from wire.errors import invalid_request
from wire.response import usage

if TYPE_CHECKING:
    from upstream.stages.items import Item
    from upstream.turns.admit import Admission
    from upstream.turns.reading import Read

_JSON = msgspec.json.Encoder()
_NULL = b"null"
_ANY_MODEL = b'"any"'


def counted(admission: Admission, members: dict[str, bytes], owner: bytes) -> bytes:
    """A `response.input_tokens` object. Raises `ApiError`. Nothing of the request is required."""
    named = members.get("model", _NULL) != _NULL
    read = _read(admission, members if named else members | {"model": _ANY_MODEL}, owner, named=named)
    total = read.context.rendered.tokens + read.beside
    return _JSON.encode({"object": "response.input_tokens", "input_tokens": total})


def compacted(admission: Admission, members: dict[str, bytes], owner: bytes, created_at: int) -> bytes:
    """A `response.compaction` object: all messages of users, then the item that stands for everything."""
    read = _read(admission, members, owner, named=True)
    total = read.context.rendered.tokens + read.beside
    admission.gate.spend(owner, total)
    item = compaction.compact(read.context, admission.sealer)
    after = pipeline.extend(read.context, [item]).rendered.tokens
    admission.gate.spent(owner, after)
    spoken = [_message(one) for one in read.context.items if one.type == "message" and one.role == "user"]
    made = {
        "id": f"resp_{secrets.token_hex(25)}",
        "object": "response.compaction",
        "created_at": created_at,
        "output": [*spoken, msgspec.Raw(item.raw)],
        "usage": usage(input_tokens=total, cached_tokens=0, output_tokens=after, reasoning_tokens=0),
    }
    return _JSON.encode(made)


def _read(admission: Admission, members: dict[str, bytes], owner: bytes, *, named: bool) -> Read:
    try:
        request = read_request(members)
        if named:
            admission.permit(owner, request.model)
        return admission.reader.read(request, owner, bare=True)
    except (msgspec.DecodeError, RecursionError):
        raise invalid_request("The request holds a value that cannot be read.") from None


def _message(item: Item) -> dict[str, Any]:
    """A user's message as an item of an output: its text and parts as they were."""
    return listing.listed(item, f"msg_{secrets.token_hex(25)}")
