"""Listing of what a stored response was asked with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from wire.errors import invalid_request

if TYPE_CHECKING:
    from upstream.kept.store import Stored
    from upstream.stages.items import Item

_PAGE: Final = 20
_MAX_PAGE: Final = 100


def page(stored: Stored, *, order: str | None, after: str | None, limit: str | None) -> dict[str, Any]:
    """A list object of the request's own items, newest first unless `order` is `asc`.

    `after` is the id of the last item already had; an unknown one lists nothing. Raises `ApiError` for bad values.
    """
    if order not in {None, "asc", "desc"}:
        raise invalid_request("Invalid 'order': expected 'asc' or 'desc'.", param="order", code="invalid_value")
    found = [listed(item, f"msg_{stored.id.removeprefix('resp_')}_{n}") for n, item in enumerate(stored.input)]
    if order != "asc":
        found.reverse()
    if after is not None:
        ids = [item["id"] for item in found]
        found = found[ids.index(after) + 1 :] if after in ids else []
    size = _size(limit)
    data = found[:size]
    ends = {"first_id": data[0]["id"] if data else None, "last_id": data[-1]["id"] if data else None}
    return {"object": "list", "data": data, "has_more": len(found) > size} | ends


def listed(item: Item, fallback: str) -> dict[str, Any]:
    """An item as it is listed: every one has an id and a type, and content of messages is in parts."""
    value = item.value() | {"type": item.type}
    value["id"] = item.id or fallback
    if item.type == "message":
        value.setdefault("status", "completed")
        if isinstance(value.get("content"), str):
            part: dict[str, Any] = {"type": "input_text", "text": value["content"]}
            if item.role == "assistant":
                part |= {"type": "output_text", "annotations": []}
            value["content"] = [part]
    return value


def _size(limit: str | None) -> int:
    if limit is None:
        return _PAGE
    if not limit.isdecimal() or not 1 <= int(limit) <= _MAX_PAGE:
        raise invalid_request(f"Invalid 'limit': expected an integer from 1 to {_MAX_PAGE}.", param="limit")
    return int(limit)
