"""Our own extensions of the wire, spoken only to a server whose handshake answer offers them (docs/wire.md).

A server offers them in the header `x-deltawire-features` of its 101 answer, a comma-separated list.

`envelope`: a member of the envelope that a connection has carried once may travel as its digest: the frame has
`"deltawire_envelope": {"tools": "<hex>"}` and no `tools`. A digest that the server does not know (any more) is
answered by an error frame with code `deltawire_envelope_unknown` before anything starts.

`append`: a lane's latest response is one that goes on. The frame `response.append` names it, and has of the request
only what differs; the answer begins with `response.resumed` and ends with `response.done`, which tell what is new.
"""

from __future__ import annotations

import hashlib

FEATURES_HEADER = "x-deltawire-features"
ENVELOPE = "envelope"
APPEND = "append"

ENVELOPE_FIELD = "deltawire_envelope"
ENVELOPE_UNKNOWN = "deltawire_envelope_unknown"
ENVELOPE_MEMBERS = ("tools", "instructions", "text")
"""Members that may be replaced: large, and rarely changed within a conversation."""
ENVELOPE_WORTHWHILE = 256
"""Bytes of a member below which its digest would save nothing."""
ENVELOPE_ENTRIES = 64
ENVELOPE_BYTES = 8 * 1024 * 1024
"""Members, and bytes of them, that both ends remember of one connection; the least recently used leave first."""

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
