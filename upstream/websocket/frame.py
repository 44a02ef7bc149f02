"""A frame from a client, read as far as its lane has to know it: which lane, which parent, whether it can run at all.

What cannot run is not an exception but a frame with its refusal: that is told when the frame's turn comes, so that a
client with one lane never takes it for the end of the answer before.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from upstream.problems import invalid_type, missing, unsupported
from upstream.stages.proof import claimed
from upstream.turns.request import body_members
from upstream.websocket.envelope_cache import refuse
from wire.errors import ApiError, invalid_request, invalid_stream_id
from wire.events import LANE
from wire.extensions import APPEND_FIELD, APPEND_TYPE

if TYPE_CHECKING:
    from upstream.stages.proof import Claim
    from upstream.websocket.envelope_cache import EnvelopeCache

_NULL = b"null"
_TEXT = msgspec.json.Decoder(str)


@dataclass(frozen=True, slots=True)
class Frame:
    """One request of a lane: its members, or why it is refused. `parent` is the response that it means to continue."""

    members: dict[str, bytes] = field(default_factory=dict, repr=False)
    parent: str | None = None
    refusal: ApiError | None = None
    resumes: bool = False
    """Whether it is a `response.append`: of the request its members are those that differ from the parent's."""
    size: int = 0
    """Bytes that it holds while it waits."""
    received: float = 0.0
    """When it came, in seconds of the clock that the turns are timed by."""
    claim: Claim | None = field(default=None, repr=False)


def read_frame(
    data: bytes, envelopes: EnvelopeCache | None, *, lanes: bool, appends: bool = False, nonce: bytes = b""
) -> tuple[str | None, Frame]:
    """The lane's name (None: the default lane) and the frame. Never raises.

    Without `lanes`, everything is of the default lane, and a `stream_id` stays among the members, to be refused as one
    that this server does not have. Without `envelopes`, digests are refused; without `appends`, `response.append`
    is; without a `nonce`, claims of what the conversation is are.
    """
    name: str | None = None
    parent: str | None = None
    try:
        members = body_members(data)
        raw = members.pop("stream_id", _NULL) if lanes else _NULL
        if raw != _NULL:
            name = _name(raw)
        resumes = appends and _string(members.get("type", _NULL)) == APPEND_TYPE
        parent = _string(members.get(APPEND_FIELD if resumes else "previous_response_id", _NULL))
        members = _append(members, parent) if resumes else _create(members)
        claim = claimed(members, nonce)
        members = refuse(members) if envelopes is None else envelopes.take(members)
    except ApiError as error:
        return name, Frame(parent=parent, refusal=error)
    return name, Frame(members, parent, resumes=resumes, size=len(data), claim=claim)


def is_text(data: bytes) -> bool:
    """Whether the payload of a text frame is UTF-8, without which the connection has to fail (RFC 6455, 8.1)."""
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def not_text() -> Frame:
    """What stands for a binary message."""
    return Frame(refusal=invalid_request("Only text frames are understood."))


def tagged(event: bytes, name: str | None) -> bytes:
    """The event as a lane's client sees it: that of a named lane says which."""
    return event if name is None else b'%b,"stream_id":"%b"}' % (event[:-1], name.encode())


def _append(members: dict[str, bytes], parent: str | None) -> dict[str, bytes]:
    raw = members.get(APPEND_FIELD)
    if raw is None:
        raise missing(APPEND_FIELD)
    if parent is None:
        raise invalid_type(APPEND_FIELD, "a string", raw)
    return _awaited({name: value for name, value in members.items() if name not in {"type", APPEND_FIELD}})


def _create(members: dict[str, bytes]) -> dict[str, bytes]:
    kind = members.pop("type", None)
    if kind is None:
        raise missing("type")
    if _string(kind) != "response.create":
        raise invalid_request("Unknown event type: only 'response.create' is understood.", param="type")
    return _awaited(members)


def _awaited(members: dict[str, bytes]) -> dict[str, bytes]:
    if members.get("background") == b"true":
        raise unsupported("background", "Responses are not run in the background over WebSockets.")
    return members


def _name(raw: bytes) -> str:
    name = _string(raw)
    if name is None or not LANE.fullmatch(name):
        raise invalid_stream_id()
    return name


def _string(raw: bytes) -> str | None:
    try:
        return _TEXT.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
