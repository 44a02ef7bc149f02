"""Items of a conversation as the server keeps them: the client's bytes, and the few members it decides by."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import msgspec

from upstream.problems import invalid_type, missing, reworded
from upstream.stages.seal import COMPACTION, REASONING
from wire.split import Malformed, elements

if TYPE_CHECKING:
    from collections.abc import Callable

    from upstream.stages.render import Made
    from upstream.stages.screen import Verdict
    from upstream.stages.seal import Sealer

CALLS = frozenset(
    {"function_call", "custom_tool_call", "local_shell_call", "shell_call", "apply_patch_call", "computer_call"},
)
OUTPUTS = {
    "function_call_output": "function call output",
    "custom_tool_call_output": "custom tool call output",
}
"""Items that answer a call, and what the API calls them in its errors."""
REFERENCE = "item_reference"
_REQUIRED = {
    "message": ("role", "content"),
    "function_call": ("call_id", "name", "arguments"),
    "function_call_output": ("call_id", "output"),
    "custom_tool_call": ("call_id", "name", "input"),
    "custom_tool_call_output": ("call_id", "output"),
    "item_reference": ("id",),
    "compaction": ("encrypted_content",),
}
_SEALED = {"reasoning": REASONING, "compaction": COMPACTION}
"""Items with a text that only this server reads."""


class _Head(msgspec.Struct, gc=False):
    """Members of an item whose type matters; all others stay unread."""

    type: str | None = None
    id: str | None = None
    role: str | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: str | None = None
    encrypted_content: str | None = None
    content: msgspec.Raw = msgspec.Raw(b"")
    output: msgspec.Raw = msgspec.Raw(b"")
    input: msgspec.Raw = msgspec.Raw(b"")


class _Part(msgspec.Struct, gc=False):
    """A part of a content or an output."""

    type: str | None = None


_HEAD = msgspec.json.Decoder(_Head)
_PART = msgspec.json.Decoder(_Part)
_PARTS = msgspec.json.Decoder(list[_Part])
_ANY = msgspec.json.Decoder()


@dataclass(slots=True, eq=False)
class Facts:
    """What the stages found out about an item, so that they need not look again; it follows from the item alone."""

    made: Made | None = None
    verdict: Verdict | None = None

    def forget(self) -> None:
        """Let them look again."""
        self.made = self.verdict = None


@dataclass(frozen=True, slots=True)
class Item:
    """One item. `hidden` is what no client sees of reasoning and compactions; empty where it is not known."""

    raw: bytes = field(repr=False)
    type: str
    id: str | None = None
    role: str | None = None
    call_id: str | None = None
    name: str | None = None
    hidden: str = field(default="", repr=False)
    tokens: bytes = field(default=b"", repr=False, compare=False)
    """What a model wrote of it, as native uint32; empty where that is not known."""
    sent: bytes = field(default=b"", repr=False, compare=False)
    """What the client sent in its place, such as a reference; empty where that is `raw`."""
    facts: Facts = field(default_factory=Facts, init=False, repr=False, compare=False)

    def value(self) -> dict[str, Any]:
        """The item parsed."""
        parsed: dict[str, Any] = _ANY.decode(self.raw)
        return parsed


def read_items(raw: bytes, sealer: Sealer, known: Callable[[bytes], Item | None] = lambda _raw: None) -> list[Item]:
    """Items of an `input` member; `known` has those that were read before, by their bytes.

    Raises `ApiError` that names the place of what is wrong.
    """
    if raw[:1] == b'"':
        return [Item(b'{"type":"message","role":"user","content":%b}' % raw, "message", role="user")]
    if raw[:1] != b"[":
        raise invalid_type("input", "one of a string or array of objects", raw)
    try:
        return [
            known(element) or _read(element, f"input[{index}]", sealer) for index, element in enumerate(elements(raw))
        ]
    except Malformed:
        raise invalid_type("input", "one of a string or array of objects", raw) from None


def trusted(raw: bytes) -> Item:
    """An item that was read before, from its bytes."""
    head = _HEAD.decode(raw)
    return Item(raw, head.type or _implied(head) or "", head.id, head.role, head.call_id, head.name)


def output_item(value: dict[str, Any], hidden: str = "", tokens: bytes = b"") -> Item:
    """An item that the server itself made."""
    return Item(
        msgspec.json.encode(value),
        value["type"],
        id=value.get("id"),
        role=value.get("role"),
        call_id=value.get("call_id"),
        name=value.get("name"),
        hidden=hidden,
        tokens=tokens,
    )


def without_hidden(item: Item) -> Item:
    """The item as a client could echo it when it was given no sealed text."""
    return replace(item, hidden="", tokens=b"") if item.hidden else item


def _read(raw: bytes, path: str, sealer: Sealer) -> Item:
    if raw[:1] != b"{":
        raise invalid_type(path, "an object", raw)
    try:
        head = _HEAD.decode(raw)
    except msgspec.DecodeError as error:
        raise reworded(error, path) from None
    kind = head.type or _implied(head)
    if kind is None:
        raise missing(f"{path}.type")
    for member in _REQUIRED.get(kind, ()):
        if _is_absent(getattr(head, member)):
            raise missing(f"{path}.{member}")
    hidden = ""
    if kind in _SEALED and head.encrypted_content is not None:
        hidden = sealer.open(head.encrypted_content, param=f"{path}.encrypted_content", purpose=_SEALED[kind])
    if kind == "message" and bytes(head.content)[:1] not in (b'"', b"["):
        raise invalid_type(f"{path}.content", "one of a string or array of objects", bytes(head.content))
    for name, parts in (("content", head.content), ("output", head.output)):
        _check_parts(bytes(parts), f"{path}.{name}")
    return Item(raw, kind, id=head.id, role=head.role, call_id=head.call_id, name=head.name, hidden=hidden)


def _check_parts(raw: bytes, path: str) -> None:
    """Whatever is an array is one of parts, which later stages tell apart by their type."""
    if raw[:1] != b"[":
        return
    try:
        _PARTS.decode(raw)
    except msgspec.DecodeError:
        for index, part in enumerate(elements(raw)):
            if part[:1] != b"{":
                raise invalid_type(f"{path}[{index}]", "an object", part) from None
            try:
                _PART.decode(part)
            except msgspec.DecodeError as error:
                raise reworded(error, f"{path}[{index}]") from None


def _is_absent(value: str | msgspec.Raw | None) -> bool:
    return value is None or (isinstance(value, msgspec.Raw) and bytes(value) in {b"", b"null"})


def _implied(head: _Head) -> str | None:
    """Type of an item that names none: the API takes messages and references so."""
    if head.role is not None:
        return "message"
    return REFERENCE if head.id is not None else None
