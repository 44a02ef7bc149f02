"""Compaction: one sealed item that stands for everything before it.

The item holds what a model goes on to see: all messages of users, systems and developers, calls that are still open,
the newest steps as far as they fit into a share of the whole, and one line for each step that is left out. It also
holds digests of all items that it replaces. So the fold of a conversation begins anew at such an item: what it replaces
goes, whether a client sends it again or not, and what it does not know stays. A history that is sent in full, one that
was cut before the item, and a continuation by id are the same conversation afterwards.
"""

from __future__ import annotations

import secrets
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import msgspec

from upstream.stages import render
from upstream.stages.items import CALLS, OUTPUTS, Item, trusted
from upstream.stages.seal import COMPACTION
from upstream.templates.functions import ADDITIONAL

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from upstream.stages.pipeline import Context
    from upstream.stages.seal import Sealer

TYPE: Final = "compaction"
HEADING: Final = "Summary of earlier steps of this conversation, which are not shown any more:"
_DIGEST: Final = 8
_SHARE: Final = 8
"""The newest steps stay as they are within one part in so many of the tokens."""
_LINES: Final = 40
_LINE: Final = 160
_ALWAYS: Final = frozenset({"user", "system", "developer"})
_ENCODER: Final = msgspec.json.Encoder()


class _Sealed(msgspec.Struct):
    """What the sealed text says."""

    covers: bytes
    items: list[msgspec.Raw]


_SEALED: Final = msgspec.json.Decoder(_Sealed)


def compact(context: Context, sealer: Sealer) -> Item:
    """The item that stands for all items of `context`."""
    digests = b"".join(_digest(one) for one in context.rendered.segments)
    essential = [
        msgspec.Raw(item.raw)
        for item in essentials(list(context.items), [one.tokens for one in context.rendered.segments])
    ]
    hidden = _ENCODER.encode(_Sealed(digests, essential)).decode(errors="replace")
    value = {"id": f"cmp_{secrets.token_hex(25)}", "type": TYPE}
    value["encrypted_content"] = sealer.seal(hidden, COMPACTION)
    return Item(_ENCODER.encode(value), TYPE, id=value["id"], hidden=hidden)


def due(context: Context, sealer: Sealer, threshold: int | None, beside: int) -> Item | None:
    """The item to go on with when the context and the `beside` tokens with it pass the threshold.

    None when they do not, or when nothing would be won.
    """
    if threshold is None or context.rendered.tokens + beside <= threshold:
        return None
    item = compact(context, sealer)
    return item if render.extend(context.rendered.empty(), opened(item)[1]).tokens < context.rendered.tokens else None


def replaced(items: Iterable[Item], segments: Iterable[render.Segment], compaction: Item) -> list[Item]:
    """What a model sees in place of `items` (rendered as `segments`) and the compaction after them."""
    covers, essential = opened(compaction)
    kept: list[Item] = []
    for item, segment in zip(items, segments, strict=True):
        digest = _digest(segment)
        if covers[digest]:
            covers[digest] -= 1
        else:
            kept.append(item)
    return [*kept, *essential]


def opened(compaction: Item) -> tuple[Counter[bytes], list[Item]]:
    """Digests of the items that it stands for, and the items that it brings."""
    sealed = _SEALED.decode(compaction.hidden.encode(errors="replace"))
    digests = (sealed.covers[at : at + _DIGEST] for at in range(0, len(sealed.covers), _DIGEST))
    # Without ids: an item that stayed beside them, because its client changed it, may have the same.
    return Counter(digests), [replace(trusted(bytes(raw)), id=None) for raw in sealed.items]


def essentials(items: Sequence[Item], sizes: Sequence[int]) -> list[Item]:
    """The items (of `sizes` tokens) that stay, with a summary in the place of the last one that does not."""
    stays = _staying(items, sizes)
    dropped = [at for at in range(len(items)) if at not in stays]
    if not dropped:
        return list(items)
    lines = _lines([items[at] for at in dropped])
    before = [items[at] for at in sorted(stays) if at < dropped[-1]]
    after = [items[at] for at in sorted(stays) if at > dropped[-1]]
    return [*before, *([_summary(lines)] if lines else []), *after]


def calls_told(item: Item) -> int:
    """Calls that a summary tells of; 0 for any other item."""
    return sum(line.startswith("- called ") for line in _told(item))


def _staying(items: Sequence[Item], sizes: Sequence[int]) -> set[int]:
    room = sum(sizes) // _SHARE
    answered = {item.call_id for item in items if item.type in OUTPUTS}
    stays = {
        at
        for at, item in enumerate(items)
        if (item.type == "message" and item.role in _ALWAYS and not _told(item))
        or item.type == ADDITIONAL
        or (item.type in CALLS and item.call_id not in answered)
    }
    calls = _calls(items)
    for at in range(len(items) - 1, -1, -1):
        if at in stays:
            continue
        unit = {at, calls.get(at, at)}
        room -= sum(sizes[one] for one in unit)
        if room < 0 or _told(items[at]):
            break
        stays |= unit
    return stays


def _calls(items: Sequence[Item]) -> dict[int, int]:
    """Where the call of each output stands: the latest one before it, since clients may use an id again."""
    made: dict[str | None, int] = {}
    found: dict[int, int] = {}
    for at, item in enumerate(items):
        if item.type in CALLS:
            made[item.call_id] = at
        elif item.type in OUTPUTS and item.call_id in made:
            found[at] = made[item.call_id]
    return found


def _lines(dropped: Sequence[Item]) -> list[str]:
    lines: list[str] = []
    places: dict[str | None, int] = {}
    for item in dropped:
        value = item.value()
        if told := _told(item):
            lines += told
        elif item.type in CALLS:
            places[item.call_id] = len(lines)
            lines.append(f"- called {item.name or item.type}: {_short(value.get('arguments', value.get('input')))}")
        elif item.type in OUTPUTS:
            at = places.get(item.call_id)
            if at is not None:
                lines[at] += f" -> {_short(value.get('output'))}"
        elif item.type == "message":
            lines.append(f"- said: {_short(value.get('content'))}")
    return lines[-_LINES:]


def _short(value: Any) -> str:
    if isinstance(value, list):
        value = " ".join(str(part.get("text", part.get("type", ""))) for part in value if isinstance(part, dict))
    elif not isinstance(value, str):
        value = _ENCODER.encode(value).decode()
    line = " ".join(value.split())
    return line if len(line) <= _LINE else f"{line[: _LINE - 3]}..."


def _summary(lines: list[str]) -> Item:
    text = "\n".join([HEADING, *lines]).encode(errors="replace").decode()
    return trusted(_ENCODER.encode({"type": "message", "role": "developer", "content": text}))


def _told(item: Item) -> list[str]:
    """Lines of an item that is itself a summary."""
    if item.type != "message" or item.role != "developer":
        return []
    content = item.value().get("content")
    head, *lines = content.split("\n") if isinstance(content, str) else ("",)
    return lines if head == HEADING else []


def _digest(segment: render.Segment) -> bytes:
    return segment.digest[:_DIGEST]
