"""What an item says to a model, as a digest.

Blind to ids and to the way a client wrote the JSON: a history that a client echoes and the one the server kept mean the
same. It depends on no template and no vocabulary, so that clients can compare by it what was shown, and a compaction
can name the items that it stands for.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final

import orjson

if TYPE_CHECKING:
    from upstream.stages.items import Item

SIZE: Final = 16
NOTHING: Final = b"\0" * SIZE
"""The digest of no items."""
_TEXTS = frozenset({"input_text", "output_text", "text", "summary_text", "reasoning_text"})
_PART_NOISE = frozenset({"annotations", "logprobs"})
_ITEM_NOISE = frozenset({"id", "status", "internal_chat_message_metadata_passthrough"})


def digest(item: Item) -> bytes:
    """Of one item."""
    return hashlib.blake2b(_encoded(_shown(item)), digest_size=SIZE).digest()


def chained(before: bytes, item: bytes) -> bytes:
    """Of all items before and then this one, by their digests."""
    return hashlib.blake2b(before + item, digest_size=SIZE).digest()


def _shown(item: Item) -> list[Any]:
    if item.type == "reasoning":
        return ["reasoning", item.hidden]
    value = item.value()
    if item.type == "message":
        return ["message", item.role, _content(value.get("content"))]
    if item.type == "function_call":
        return ["call", item.name, _canonical_json(value.get("arguments"))]
    if item.type == "custom_tool_call":
        return ["call", item.name, value.get("input")]
    if item.type.endswith("_output"):
        return ["output", _content(value.get("output"))]
    return [item.type, _sorted({name: member for name, member in value.items() if name not in _ITEM_NOISE})]


def _content(content: object) -> object:
    """A string and one part with the same text are the same thing to a model."""
    if not isinstance(content, list):
        return [content] if isinstance(content, str) else _sorted(content)
    return [_part(part) for part in content]


def _part(part: object) -> object:
    if not isinstance(part, dict):
        return part
    if part.get("type") in _TEXTS:
        return part.get("text")
    return _sorted({name: member for name, member in part.items() if name not in _PART_NOISE and member is not None})


def _canonical_json(text: object) -> object:
    if not isinstance(text, str):
        return text
    try:
        return orjson.dumps(orjson.loads(text), option=orjson.OPT_SORT_KEYS).decode()
    except (orjson.JSONDecodeError, TypeError):
        return text


def _sorted(value: object) -> object:
    if isinstance(value, dict):
        return {name: _sorted(value[name]) for name in sorted(value)}
    return [_sorted(member) for member in value] if isinstance(value, list) else value


def _encoded(value: object) -> bytes:
    try:
        return orjson.dumps(value)
    except (TypeError, ValueError):  # integers beyond 64 bits, lone surrogates
        return repr(value).encode(errors="surrogatepass")
