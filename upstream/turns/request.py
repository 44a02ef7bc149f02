"""One request, read: HTTP body and `response.create` frame have the same members."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

from upstream.problems import invalid_type, invalid_value, missing, reworded, unsupported
from upstream.turns.values import check
from wire.errors import invalid_request
from wire.response import Echoed
from wire.split import Malformed, members, splice

_NULL = b"null"
_LARGE = frozenset({"input", "tools", "instructions"})
_REFUSED = {
    "conversation": "Conversations are not kept here: send the items, or previous_response_id.",
    "prompt": "Prompt templates are not kept here: send the instructions and the input.",
}


class Fields(Echoed, gc=False):
    """Members that are read in full. Members not named here are tolerated."""

    stream: bool | None = None
    generate: bool | None = None
    previous_response_id: str | None = None
    stream_id: str | None = None
    context_management: list[dict[str, Any]] | None = None
    include: list[str] | None = None


_FIELDS = msgspec.json.Decoder(Fields)
_KNOWN = frozenset(Fields.__struct_fields__)
_TEXT = msgspec.json.Decoder(str)


@dataclass(frozen=True, slots=True)
class Request:
    """The members that decide, and the large ones as raw JSON (empty when absent or null)."""

    fields: Fields = field(repr=False)
    model: str
    input: bytes = field(repr=False)
    tools: bytes = field(repr=False)
    instructions: str | None = field(repr=False)

    @property
    def store(self) -> bool:
        """Whether the response may be asked for later; absent means yes."""
        return self.fields.store is not False

    @property
    def sealed_reasoning(self) -> bool:
        """Whether reasoning items carry their sealed text."""
        return "reasoning.encrypted_content" in (self.fields.include or ())


def body_members(body: bytes) -> dict[str, bytes]:
    """Members of a request. Raises `ApiError` when it is no JSON object."""
    try:
        return members(body)
    except Malformed:
        raise invalid_request("We could not parse the JSON body of your request.") from None


def read_request(raw: dict[str, bytes]) -> Request:
    """The request, every member that matters checked for its type. Raises `ApiError` with the member's path."""
    fields = _fields(raw)
    if not fields.model:
        raise missing("model")
    if fields.background and fields.store is False:
        raise invalid_value("store", "Background mode requires 'store' to be true.")
    check(fields)
    tools = _array(raw, "tools")
    return Request(fields, fields.model, _present(raw, "input"), tools, _instructions(raw))


def read_changes(request: Request, raw: dict[str, bytes]) -> Request:
    """The request with the members of `raw` in the place of its own, which alone are checked. Raises `ApiError`."""
    given = _fields(raw)
    check(given)
    fields = msgspec.structs.replace(request.fields, **{name: getattr(given, name) for name in raw.keys() & _KNOWN})
    if not fields.model:
        raise missing("model")
    tools = _array(raw, "tools") if "tools" in raw else request.tools
    instructions = _instructions(raw) if "instructions" in raw else request.instructions
    return Request(fields, fields.model, _present(raw, "input"), tools, instructions)


def _fields(raw: dict[str, bytes]) -> Fields:
    for name, why in _REFUSED.items():
        if raw.get(name, _NULL) != _NULL:
            raise unsupported(name, why)
    try:
        return _FIELDS.decode(splice((name, value) for name, value in raw.items() if name in _KNOWN - _LARGE))
    except msgspec.DecodeError as error:
        raise reworded(error) from None


def _present(raw: dict[str, bytes], name: str) -> bytes:
    value = raw.get(name, b"")
    return b"" if value == _NULL else value


def _array(raw: dict[str, bytes], name: str) -> bytes:
    value = _present(raw, name)
    if value and value[:1] != b"[":
        raise invalid_type(name, "an array of objects", value)
    return value


def _instructions(raw: dict[str, bytes]) -> str | None:
    value = _present(raw, "instructions")
    if not value:
        return None
    try:
        return _TEXT.decode(value)
    except msgspec.DecodeError:
        raise invalid_type("instructions", "a string", value) from None
