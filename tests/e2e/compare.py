"""Whether two runs gave a client the same thing, but for what no two answers share."""

from __future__ import annotations

from typing import Any

NAMED = frozenset({"id", "call_id", "item_id", "response_id", "previous_response_id", "encrypted_content"})
"""Members whose value is a name made for one answer: they compare by where they stand, not by what they are."""
VARYING = frozenset({"created_at", "completed_at", "cached_tokens", "cache_write_tokens"})
"""Members that say when an answer was made, or how cheaply; only whether they are there is compared."""


def comparable(value: Any) -> Any:
    """`value` with each made name replaced by the order of its first appearance, and what may vary by a mark."""
    return _walk(value, {})


def _walk(value: Any, names: dict[str, str]) -> Any:
    if isinstance(value, list):
        return [_walk(one, names) for one in value]
    if not isinstance(value, dict):
        return value
    result = {}
    for key, member in value.items():
        if key in NAMED and isinstance(member, str):
            result[key] = names.setdefault(member, f"name {len(names)}")
        elif key in VARYING and member is not None:
            result[key] = "something"
        else:
            result[key] = _walk(member, names)
    return result
