"""A turn's body, taken apart as far as a plan needs it."""

from __future__ import annotations

import json
from dataclasses import dataclass

from wire.extensions import APPEND_FIELD, ENVELOPE_FIELD
from wire.split import members

_SET_BY_CLIENT = ("previous_response_id", "conversation")
_ONLY_ON_LINKS = frozenset({"type", "stream_id", "generate", ENVELOPE_FIELD, APPEND_FIELD})
"""Members that have a meaning in a frame and none in a body: what they are to mean is for the upstream to say."""
_ABSENT = (None, b"null")
_OFF = (None, b"null", b"false")
_SWITCH = (*_OFF, b"true")
"""What `stream` may be. It does not travel in a frame, so that a link's upstream could not refuse anything else."""


@dataclass(frozen=True, slots=True)
class TurnRequest:
    """The members of a body as raw JSON, and the few values that decide its way."""

    members: dict[str, bytes]
    stream: bool
    stored: bool
    client_state: bool
    readable: bool
    tools: bool
    model: str

    @property
    def input(self) -> bytes:
        """The raw `input` member."""
        return self.members["input"]


def read(body: bytes) -> TurnRequest:
    """The request in a body. Raises `Malformed` when it is not a JSON object, or one with a key that stands twice.

    `readable` is false where the body is not of the shape that turns have: then it is not for the sidecar to judge.
    """
    found = members(body)
    return TurnRequest(
        members=found,
        stream=found.get("stream") == b"true",
        stored=found.get("store") != b"false",
        client_state=any(found.get(name) not in _ABSENT for name in _SET_BY_CLIENT)
        or found.get("background") not in _OFF,
        readable=found.get("input", b"").startswith((b"[", b'"'))
        and found.get("stream") in _SWITCH
        and not _ONLY_ON_LINKS & found.keys(),
        tools=found.get("tools", b"[]") not in {b"[]", b"null"},
        model=_text(found.get("model")),
    )


def is_json(body: bytes) -> bool:
    """Whether a body that could not be taken apart is JSON all the same, such as one with a repeated key."""
    try:
        json.loads(body)
    except (ValueError, RecursionError):
        return False
    return True


def _text(raw: bytes | None) -> str:
    if raw is None or not raw.startswith(b'"'):
        return ""
    try:
        return str(json.loads(raw))
    except ValueError:
        return ""
