"""Second stage: which model answers, and which tools it may call.

Tools come in the request, and in `additional_tools` items of the conversation; the latter are what the fold gathers.
The request's own tools are read once per distinct bytes: a conversation sends the same ones each turn.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from upstream.problems import invalid_type, missing
from upstream.stages.persistent import Seq
from upstream.templates.functions import ADDITIONAL
from wire.response import shown_tools
from wire.split import Malformed, elements

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from upstream.stages.items import Item

_ANY = msgspec.json.Decoder()


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool as offered. `namespace` is empty for tools that stand alone."""

    type: str
    name: str
    namespace: str = ""
    parameters: dict[str, Any] = field(default_factory=dict, repr=False)
    description: str = field(default="", repr=False)
    strict: bool | None = None
    format: str = "text"
    """custom: `text`, or `grammar` for an input that has to follow one."""


@dataclass(frozen=True, slots=True)
class Offer:
    """The request's `tools` member, read. `echo` is how the response object shows it."""

    raw: bytes = field(default=b"", repr=False)
    tools: tuple[Tool, ...] = ()
    echo: bytes = field(default=b"[]", repr=False)
    digest: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class Resolved:
    """What a turn is answered by."""

    model: str = ""
    offer: Offer = Offer()
    added: Seq[Tool] = field(default_factory=Seq)
    """Tools from items of the conversation."""

    def tools(self) -> tuple[Tool, ...]:
        """All tools on offer."""
        return (*self.offer.tools, *self.added)


EMPTY = Resolved()


def extend(resolved: Resolved, items: Iterable[Item]) -> Resolved:
    """The offer after `items`."""
    found = [tool for item in items if item.type == ADDITIONAL for tool in _flat(item.value().get("tools"))]
    if not found:
        return resolved
    return Resolved(resolved.model, resolved.offer, resolved.added.plus(found))


def read_offer(raw: bytes) -> Offer:
    """The `tools` member read. Raises `ApiError` with the path of what is wrong."""
    if not raw:
        return Offer()
    try:
        values = [_tool_value(element, f"tools[{index}]") for index, element in enumerate(elements(raw))]
    except Malformed:
        raise invalid_type("tools", "an array of objects", raw) from None
    echo = shown_tools(values)
    return Offer(raw, tuple(_flat(values)), echo, hashlib.sha256(echo).digest()[:16])


def offer_for(raw: bytes, known: Offer, read: Callable[[bytes], Offer] = read_offer) -> Offer:
    """The offer of a `tools` member: the one already read when the bytes are the same, else what `read` has."""
    return known if known.raw == raw else read(raw)


def _tool_value(raw: bytes, path: str) -> dict[str, Any]:
    if raw[:1] != b"{":
        raise invalid_type(path, "an object", raw)
    value: dict[str, Any] = _ANY.decode(raw)
    kind = value.get("type")
    if kind is None:
        raise missing(f"{path}.type")
    if not isinstance(kind, str):
        raise invalid_type(f"{path}.type", "a string", msgspec.json.encode(kind))
    if kind in {"function", "custom"}:
        name = value.get("name")
        if not name:
            raise missing(f"{path}.name")
        if not isinstance(name, str):
            raise invalid_type(f"{path}.name", "a string", msgspec.json.encode(name))
    parameters = value.get("parameters")
    if kind == "function" and parameters is not None and not isinstance(parameters, dict):
        raise invalid_type(f"{path}.parameters", "an object", msgspec.json.encode(parameters))
    return value


def _flat(values: object, namespace: str = "") -> list[Tool]:
    """Callable tools of a list, those inside namespaces as well; anything of another shape offers nothing."""
    found: list[Tool] = []
    for value in values if isinstance(values, list) else ():
        if not isinstance(value, dict):
            continue
        kind, name = value.get("type"), value.get("name")
        if kind == "namespace" and isinstance(name, str):
            found += _flat(value.get("tools"), name)
        elif kind in {"function", "custom"} and isinstance(name, str):
            parameters = value.get("parameters")
            found.append(
                Tool(
                    kind,
                    name,
                    namespace,
                    parameters if isinstance(parameters, dict) else {},
                    description if isinstance(description := value.get("description"), str) else "",
                    strict if isinstance(strict := value.get("strict"), bool) else None,
                    str(shape.get("type")) if isinstance(shape := value.get("format"), dict) else "text",
                )
            )
    return found
