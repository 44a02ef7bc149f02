"""When two items are equal: when they have the same canonical form, by the table in `state.items`.

The canonical form is for comparison only and is never sent. `canon(canon(x)) == canon(x)`.
"""

from typing import Final

from state.items import TABLE, kind
from wire.exact import Inexact, dump, parse

_PART_IGNORED: Final = frozenset({"annotations", "logprobs", "parsed"})
_TEXT_PART: Final = {
    "user": "input_text",
    "system": "input_text",
    "developer": "input_text",
    "assistant": "output_text",
}
_BESIDE_BLOB: Final = frozenset({"id", "summary", "content"})
_JSON_SPACE: Final = b" \t\r\n"


def canon(value: object) -> object:
    """The canonical form of a parsed item; a value that no row of the table covers is returned as it is."""
    named = kind(value)
    row = TABLE.get(named) if named is not None else None
    if row is None or not isinstance(value, dict):
        return value
    item: dict[str, object] = {
        key: member for key, member in value.items() if member is not None and key not in row.ignored
    }
    if not row.report and item.get("status") == "completed":
        del item["status"]
    item["type"] = named
    for key in row.json_text:
        if isinstance(text := item.get(key), str):
            item[key] = _json_text(text)
    for key in row.nulls_inside:
        if isinstance(inner := item.get(key), dict):
            item[key] = {name: member for name, member in inner.items() if member is not None}
    if row.shape == "message":
        return _message(item)
    if row.shape == "reasoning":
        return _reasoning(item)
    return item


def _json_text(text: str) -> str:
    # Stays a string, so that it cannot meet an object in the same place; what cannot be read exactly is its own form.
    try:
        return dump(parse(text.encode())).decode()
    except (Inexact, UnicodeEncodeError):
        return text


def _message(item: dict[str, object]) -> dict[str, object]:
    content = item.get("content")
    role = item.get("role")
    if isinstance(content, str):
        if isinstance(role, str) and role in _TEXT_PART:
            item["content"] = [{"type": _TEXT_PART[role], "text": content}]
    elif isinstance(content, list):
        item["content"] = [_part(part) for part in content]
    return item


def _part(part: object) -> object:
    if not isinstance(part, dict) or not isinstance(part.get("type"), str):
        return part
    ignored = _PART_IGNORED if part["type"] == "output_text" else frozenset()
    return {key: member for key, member in part.items() if member is not None and key not in ignored}


def _reasoning(item: dict[str, object]) -> dict[str, object]:
    blob = item.get("encrypted_content")
    if isinstance(blob, str) and blob:
        # What the model reads is inside the blob; clients shorten summaries, drop ids and add `content`.
        return {key: member for key, member in item.items() if key not in _BESIDE_BLOB}
    if item.get("content") == []:
        del item["content"]
    return item


def canonical_value(value: object) -> bytes:
    """The same as `canonical` for an item that is parsed already. Raises `Inexact` for what `parse` never returns."""
    return b"J" + dump(canon(value))


def canonical(raw: bytes) -> bytes:
    """The bytes that stand for one raw item: equal items have equal bytes, different items different ones.

    An item that cannot be read exactly stands for itself, byte by byte.
    """
    try:
        return canonical_value(parse(raw))
    except Inexact:
        return b"R" + raw.strip(_JSON_SPACE)


def string_input(raw: bytes) -> bytes:
    """The raw item that a raw JSON string as `input` stands for: one user message.

    Raises ValueError for bytes that are no string.
    """
    text = raw.strip(_JSON_SPACE)
    if len(text) < len(b'""') or text[:1] != b'"' or text[-1:] != b'"':
        raise ValueError("input is no string")
    return b'{"type":"message","role":"user","content":[{"type":"input_text","text":' + text + b"}]}"


def difference(a: bytes, b: bytes) -> str | None:
    """JSON path of the first member in which two raw items differ, None when they are equal.

    The path names members of the canonical form, `type` before all others; values are never part of it.
    """
    one, two = canonical(a), canonical(b)
    if one == two:
        return None
    if b"R" in (one[:1], two[:1]):
        return "$"
    return _differs(parse(one[1:]), parse(two[1:]), "$")


def _differs(one: object, two: object, path: str) -> str | None:
    if isinstance(one, dict) and isinstance(two, dict):
        for key in sorted(one.keys() | two.keys(), key=lambda key: (key != "type", key)):
            step = f"{path}.{key}" if key.isidentifier() else f"{path}[{dump(key).decode()}]"
            found = _differs(one[key], two[key], step) if key in one and key in two else step
            if found is not None:
                return found
        return None
    if isinstance(one, list) and isinstance(two, list):
        for index, (left, right) in enumerate(zip(one, two, strict=False)):
            found = _differs(left, right, f"{path}[{index}]")
            if found is not None:
                return found
        return None if len(one) == len(two) else f"{path}[{min(len(one), len(two))}]"
    return None if type(one) is type(two) and one == two else path
