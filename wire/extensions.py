"""Our own extensions of the wire, spoken only to a server whose handshake answer offers them (docs/wire.md).

A server offers them in the header `x-deltawire-features` of its 101 answer, a comma-separated list.

`envelope`: a member of the envelope that a connection has carried once may travel as its digest: the frame has
`"deltawire_envelope": {"tools": "<hex>"}` and no `tools`. A digest that the server does not know (any more) is
answered by an error frame with code `deltawire_envelope_unknown` before anything starts.

`context`: the frame of a continuation carries `"deltawire_context": "<hex>"`, the digest of the whole conversation as
its client means it (`state.context`), bound to the nonce in the header `x-deltawire-nonce` of the 101 answer. A server
whose own record is another one answers with an error frame with code `context_mismatch` before anything starts.

`append`: a lane's latest response is one that goes on. The frame `response.append` names it, and has of the request
only what differs; the answer begins with `response.resumed` and ends with `response.done`, which tell what is new.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

FEATURES_HEADER = "x-deltawire-features"
ENVELOPE = "envelope"
APPEND = "append"
CONTEXT = "context"

ENVELOPE_FIELD = "deltawire_envelope"
ENVELOPE_UNKNOWN = "deltawire_envelope_unknown"
ENVELOPE_MEMBERS = ("tools", "instructions", "text")
"""Members that may be replaced: large, and rarely changed within a conversation."""
ENVELOPE_WORTHWHILE = 256
"""Bytes of a member below which its digest would save nothing."""
ENVELOPE_ENTRIES = 64
ENVELOPE_BYTES = 8 * 1024 * 1024
"""Members, and bytes of them, that both ends remember of one connection; the least recently used leave first."""

NONCE_HEADER = "x-deltawire-nonce"
"""Hex of bytes that no other connection has."""
NONCE_BYTES = 16
CONTEXT_FIELD = "deltawire_context"
CONTEXT_MISMATCH = "context_mismatch"

APPEND_TYPE = "response.append"
APPEND_FIELD = "response_id"
"""The member of `response.append` that names the response to go on with."""
RESUMED = "response.resumed"
DONE = "response.done"


def envelope_digest(raw: bytes) -> str:
    """Name of a member's raw bytes: hex SHA-256. Not keyed, since both ends have to compute it."""
    return hashlib.sha256(raw).hexdigest()


def features(header: str | None) -> frozenset[str]:
    """Features named in a header value; empty without one."""
    return frozenset(name for part in (header or "").split(",") if (name := part.strip().lower()))


def offers(names: Collection[str], bound: bytes) -> dict[str, str]:
    """Headers of a 101 answer that offers these features, digests of contexts bound to the nonce `bound`."""
    found = {FEATURES_HEADER: ", ".join(names)} if names else {}
    return found | ({NONCE_HEADER: bound.hex()} if CONTEXT in names else {})


def nonce(header: str | None) -> bytes:
    """The nonce in a header value; empty without one, or when it cannot be read or is too short to be one."""
    try:
        found = bytes.fromhex(header or "")
    except ValueError:
        return b""
    return found if len(found) >= NONCE_BYTES else b""
