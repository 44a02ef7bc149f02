"""The frame of a turn, spliced from the client's own bytes."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

import msgspec

from wire.extensions import (
    APPEND_FIELD,
    APPEND_TYPE,
    CONTEXT_FIELD,
    ENVELOPE_BYTES,
    ENVELOPE_ENTRIES,
    ENVELOPE_FIELD,
    ENVELOPE_MEMBERS,
    ENVELOPE_WORTHWHILE,
    envelope_digest,
)
from wire.split import splice

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from state.digest import Keyed

_DROPPED = frozenset({"input", "stream", "previous_response_id", "background", "background_options"})
_DROPPED |= {ENVELOPE_FIELD, CONTEXT_FIELD}
"""What a frame does not carry: `stream` is implied there, `background` belongs to HTTP, the rest is put in anew."""
_CREATE = "response.create"
_NULL = b"null"


class SentEnvelope:
    """Members that a link has carried in full, by digest, as far as the server remembers them."""

    def __init__(self) -> None:
        self._sizes: OrderedDict[str, int] = OrderedDict()
        self._bytes = 0

    def __contains__(self, digest: str) -> bool:
        return digest in self._sizes

    def add(self, digest: str, size: int) -> None:
        """Note that the link has carried this member of `size` bytes (again)."""
        if size > ENVELOPE_BYTES:
            return
        self._bytes += size - self._sizes.pop(digest, 0)
        self._sizes[digest] = size
        while self._bytes > ENVELOPE_BYTES or len(self._sizes) > ENVELOPE_ENTRIES:
            self._bytes -= self._sizes.popitem(last=False)[1]

    def clear(self) -> None:
        """Forget all, after the server said that it does not know one."""
        self._sizes.clear()
        self._bytes = 0


def full(members: Mapping[str, bytes], sent: SentEnvelope | None = None) -> bytes:
    """The frame with the whole input."""
    return _frame(members, [("input", members["input"])], sent)


def delta(
    members: Mapping[str, bytes],
    previous_response_id: str,
    new: Sequence[bytes],
    sent: SentEnvelope | None = None,
    *,
    context: str = "",
) -> bytes:
    """The frame with the new items only, on top of a response; `context`: the digest of what it makes with them."""
    return _frame(members, _tail("previous_response_id", previous_response_id, new, context), sent)


def asked(members: Mapping[str, bytes], keyed: Keyed) -> dict[str, bytes]:
    """How a request is asked: a digest of each member that a frame carries beside its input, by the bytes as they are.

    By the bytes, since a model may be shown the order of keys as well. It holds no content.
    """
    return {name: keyed.digest(raw) for name, raw in members.items() if name not in _DROPPED}


def append(
    members: Mapping[str, bytes],
    response_id: str,
    new: Sequence[bytes],
    *,
    now: Mapping[str, bytes],
    before: Mapping[str, bytes],
    sent: SentEnvelope | None = None,
    context: str = "",
) -> bytes:
    """The frame that resumes a response: the new items, and what is asked for otherwise `now` than `before`."""
    otherwise = {name: members[name] for name, digest in now.items() if before.get(name) != digest}
    gone = dict.fromkeys(sorted(before.keys() - now.keys()), _NULL)
    return _frame(otherwise | gone, _tail(APPEND_FIELD, response_id, new, context), sent, APPEND_TYPE)


def _tail(parent: str, response_id: str, new: Sequence[bytes], context: str) -> list[tuple[str, bytes]]:
    proof = [(CONTEXT_FIELD, msgspec.json.encode(context))] if context else []
    return [(parent, msgspec.json.encode(response_id)), *proof, ("input", b"[%b]" % b",".join(new))]


def _frame(
    members: Mapping[str, bytes], tail: list[tuple[str, bytes]], sent: SentEnvelope | None, kind: str = _CREATE
) -> bytes:
    """`sent` is given for a server that takes digests; members it has not seen yet travel whole, and are noted."""
    digests: dict[str, str] = {}

    def pairs() -> Iterator[tuple[str, bytes]]:
        yield "type", msgspec.json.encode(kind)
        for name, raw in members.items():
            if name in _DROPPED:
                continue
            if sent is not None and name in ENVELOPE_MEMBERS and len(raw) >= ENVELOPE_WORTHWHILE:
                digest = envelope_digest(raw)
                known = digest in sent
                sent.add(digest, len(raw))
                if known:
                    digests[name] = digest
                    continue
            yield name, raw
        if digests:
            yield ENVELOPE_FIELD, msgspec.json.encode(digests)
        yield from tail

    return splice(pairs())
