"""Large members that one connection has carried: afterwards their digest stands for them (wire.extensions)."""

from __future__ import annotations

from collections import OrderedDict

import msgspec

from upstream.problems import invalid_type, invalid_value
from wire.errors import ApiError, invalid_request
from wire.extensions import ENVELOPE_FIELD, ENVELOPE_MEMBERS, ENVELOPE_UNKNOWN, ENVELOPE_WORTHWHILE, envelope_digest

_DIGESTS = msgspec.json.Decoder(dict[str, str])
_CONFLICT = 409


class EnvelopeCache:
    """Raw members by digest, the least recently used leave first. Bounded in entries and bytes."""

    def __init__(self, *, entries: int, limit: int) -> None:
        self._entries, self._limit = entries, limit
        self._members: OrderedDict[str, bytes] = OrderedDict()
        self.bytes = 0

    def evict(self) -> None:
        """Forget everything: digests that come are not known then."""
        self._members.clear()
        self.bytes = 0

    def take(self, members: dict[str, bytes]) -> dict[str, bytes]:
        """The request's members in full. Remembers those that came in full, restores those that came as a digest.

        Raises `ApiError` `deltawire_envelope_unknown` when a digest is not known, without any other effect than that
        the frame's own members are remembered.
        """
        raw = members.get(ENVELOPE_FIELD)
        whole = {name: value for name, value in members.items() if name != ENVELOPE_FIELD}
        for name in ENVELOPE_MEMBERS:
            if len(value := whole.get(name, b"")) >= ENVELOPE_WORTHWHILE:
                self._remember(value)
        for name, digest in _digests(raw).items() if raw is not None else ():
            if name not in ENVELOPE_MEMBERS or name in whole:
                raise invalid_value(f"{ENVELOPE_FIELD}.{name}", "A digest may only stand for a member that is absent.")
            found = self._members.get(digest)
            if found is None:
                raise _unknown(name)
            self._members.move_to_end(digest)
            whole[name] = found
        return whole

    def _remember(self, value: bytes) -> None:
        digest = envelope_digest(value)
        if digest in self._members:
            self._members.move_to_end(digest)
            return
        if len(value) > self._limit:
            return
        self._members[digest] = value
        self.bytes += len(value)
        while self.bytes > self._limit or len(self._members) > self._entries:
            self.bytes -= len(self._members.popitem(last=False)[1])


def refuse(members: dict[str, bytes]) -> dict[str, bytes]:
    """The members where digests are not offered. Raises `ApiError` when there are any: a member would be missing."""
    if ENVELOPE_FIELD in members:
        raise invalid_request(f"Unknown parameter: '{ENVELOPE_FIELD}'.", param=ENVELOPE_FIELD, code="unknown_parameter")
    return members


def _digests(raw: bytes) -> dict[str, str]:
    try:
        return _DIGESTS.decode(raw)
    except msgspec.DecodeError:
        raise invalid_type(ENVELOPE_FIELD, "an object of strings", raw) from None


def _unknown(name: str) -> ApiError:
    return invalid_request(
        "The digest of this member is not known on this connection. Send the member in full.",
        param=name,
        code=ENVELOPE_UNKNOWN,
        status=_CONFLICT,
    )
