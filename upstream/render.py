"""Third stage: what the model reads, one segment per item.

Only what a model is shown counts: never ids, nor the way a client wrote the JSON. So a history that a client echoes
and the one the server kept render to the same segments. The segments of this version are sizes and digests; the count
is four UTF-8 bytes a token and a fixed overhead per item, which is deterministic and needs no vocabulary.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson

from upstream.persistent import Seq

if TYPE_CHECKING:
    from collections.abc import Iterable

    from upstream.items import Item

_ITEM_OVERHEAD = 3
_BYTES_PER_TOKEN = 4
_DIGEST = 16
_TEXTS = frozenset({"input_text", "output_text", "text", "summary_text", "reasoning_text"})
_PART_NOISE = frozenset({"annotations", "logprobs"})
_ITEM_NOISE = frozenset({"id", "status", "internal_chat_message_metadata_passthrough"})


@dataclass(frozen=True, slots=True)
class Segment:
    """One item as the model reads it."""

    tokens: int
    digest: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Rendered:
    """All segments, their tokens, and the digest of all of them in order."""

    segments: Seq[Segment]
    tokens: int = 0
    digest: bytes = field(default=b"\0" * _DIGEST, repr=False)


EMPTY = Rendered(Seq())


def extend(rendered: Rendered, items: Iterable[Item]) -> Rendered:
    """The rendering with `items` appended."""
    fresh = [segment(item) for item in items]
    if not fresh:
        return rendered
    digest = rendered.digest
    for one in fresh:
        digest = hashlib.blake2b(digest + one.digest, digest_size=_DIGEST).digest()
    return Rendered(rendered.segments.plus(fresh), rendered.tokens + sum(one.tokens for one in fresh), digest)


def segment(item: Item) -> Segment:
    """What the model reads of one item."""
    text = _encoded(_shown(item))
    return Segment(_ITEM_OVERHEAD + tokens_of(text), hashlib.blake2b(text, digest_size=_DIGEST).digest())


def tokens_of(text: bytes) -> int:
    """The count of this version for text of this size."""
    return -(-len(text) // _BYTES_PER_TOKEN)


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
