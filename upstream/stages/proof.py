"""Proof that a conversation is the one that its client means: a chain over its items as they were sent, compared.

A stage as all others are, `extend(extend(p, a), b) == extend(p, a + b)`; but a compaction does not begin it anew, since
it tells of what was said and not of what a model is shown. The artifact is the chain (`state.context`), or empty where
none is kept: over HTTP, and where the extension `context` is not offered. What goes on from there is not compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from hmac import compare_digest
from typing import TYPE_CHECKING, Final

import msgspec

from state import context
from state.canon import canonical
from upstream.problems import invalid_type
from wire.errors import invalid_request
from wire.extensions import CONTEXT_FIELD, CONTEXT_MISMATCH

if TYPE_CHECKING:
    from collections.abc import Iterable

    from upstream.stages.items import Item

NONE: Final = b""
BEGUN: Final = context.START
_CONFLICT: Final = 409
_TEXT: Final = msgspec.json.Decoder(str)


@dataclass(frozen=True, slots=True)
class Claim:
    """What a client says that the conversation is, on the connection of this nonce."""

    digest: str
    nonce: bytes


def extend(chain: bytes, items: Iterable[Item]) -> bytes:
    """The chain with these items after it."""
    if chain == NONE:
        return NONE
    return context.extend(chain, (context.form_of(canonical(item.sent or item.raw)) for item in items)) or NONE


def claimed(members: dict[str, bytes], nonce: bytes) -> Claim | None:
    """The claim among the members of a frame, which is taken out; none without the field.

    Raises `ApiError` where it is no text, or the connection, without a nonce, does not compare.
    """
    raw = members.pop(CONTEXT_FIELD, None)
    if raw is None:
        return None
    if not nonce:
        raise invalid_request(f"Unknown parameter: '{CONTEXT_FIELD}'.", param=CONTEXT_FIELD, code="unknown_parameter")
    try:
        return Claim(_TEXT.decode(raw), nonce)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise invalid_type(CONTEXT_FIELD, "a string", raw) from None


def check(claim: Claim | None, chain: bytes) -> None:
    """Raise `ApiError` `context_mismatch` where the claim is about another conversation than the chain."""
    if claim is None or chain == NONE:
        return
    if not compare_digest(claim.digest.encode(errors="replace"), context.bound(claim.nonce, chain).encode()):
        raise invalid_request(
            "The conversation that is kept here is another one than the digest stands for. Send it in full.",
            param=CONTEXT_FIELD,
            code=CONTEXT_MISMATCH,
            status=_CONFLICT,
        )
