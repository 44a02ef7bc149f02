"""Values made from a JSON schema: the smallest deterministic one that is valid, or none."""

from __future__ import annotations

import math
import re
from typing import Any

_DEPTH = 12
_MOST = 2000
"""Values that are made, or tried, for one schema."""
_LONGEST = 10_000
"""Characters of a string."""
_FORMATS = {
    "date": "2026-01-01",
    "date-time": "2026-01-01T00:00:00Z",
    "time": "00:00:00Z",
    "email": "user@example.com",
    "uri": "https://example.com/",
    "url": "https://example.com/",
    "uuid": "00000000-0000-4000-8000-000000000000",
    "ipv4": "127.0.0.1",
    "hostname": "example.com",
}
_CANDIDATES = (
    "deltawire",
    "1",
    "a",
    "A1",
    "2026-01-01",
    "https://example.com/",
    "00000000-0000-4000-8000-000000000000",
)
_ATOMS = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)
_SLOW = re.compile(r"\)[*+?{]")
_FLAGS = re.compile(r"\(\?[aiLmsux-]")
_BRANCHES = 4
_LONGEST_PATTERN = 500
_BEYOND = frozenset(
    {
        *("not", "if", "contains", "propertyNames", "patternProperties", "minProperties"),
        *("dependentRequired", "dependentSchemas", "unevaluatedProperties", "unevaluatedItems", "$dynamicRef"),
    }
)
"""Keywords that a value made here might break."""
_ORDER = ("object", "string", "integer", "number", "boolean", "array", "null")


class Impossible(ValueError):
    """No value is made for this schema: it asks for something beyond the keywords known here."""


def value_for(schema: object) -> Any:
    """A valid value: required members only, first choices, least sizes. Raises `Impossible`."""
    whole = {} if schema is True else schema
    if not isinstance(whole, dict):
        raise Impossible
    return _Maker(whole).value(whole, 0)


class _Maker:
    """Makes values under one root, of which references tell; within bounds of work, since clients write schemas."""

    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        self._left = _MOST

    def value(self, schema: object, depth: int) -> Any:
        self._left -= 1
        if schema is True:
            schema = {}
        if not isinstance(schema, dict) or depth > _DEPTH or self._left < 0 or not _BEYOND.isdisjoint(schema):
            raise Impossible
        if "$ref" in schema:
            return self.value(_target(schema["$ref"], self._root), depth + 1)
        choices = [schema["const"]] if "const" in schema else schema.get("enum")
        if isinstance(choices, list):
            return next((value for value in choices if value is not None), None)
        for keyword in ("anyOf", "oneOf"):
            if isinstance(options := schema.get(keyword), list):
                return self._first_possible(options, schema, keyword, depth)
        if isinstance(parts := schema.get("allOf"), list):
            beside = {name: value for name, value in schema.items() if name != "allOf"}
            return self.value(_merged([beside, *parts], self._root), depth + 1)
        return self._typed(_type_of(schema), schema, depth)

    def _typed(self, kind: str, schema: dict[str, Any], depth: int) -> Any:
        if kind == "object":
            properties = schema.get("properties", {})
            others = schema.get("additionalProperties", True)
            return {name: self.value(properties.get(name, others), depth + 1) for name in schema.get("required", ())}
        if kind == "array":
            count = schema.get("minItems", 0)
            if schema.get("uniqueItems") and count > 1:
                raise Impossible
            items = schema.get("items", schema.get("prefixItems", [True])[0])
            return [self.value(items, depth + 1) for _ in range(count)]
        if kind == "string":
            return _string(schema)
        if kind in {"integer", "number"}:
            return _number(schema, whole=kind == "integer")
        return False if kind == "boolean" else None

    def _first_possible(self, options: list[Any], schema: dict[str, Any], keyword: str, depth: int) -> Any:
        beside = {name: value for name, value in schema.items() if name != keyword}
        # Nulls last: an optional value is more telling when it is there.
        for option in sorted(options, key=lambda one: isinstance(one, dict) and one.get("type") == "null"):
            try:
                return self.value(_merged([beside, option], self._root), depth + 1)
            except Impossible:
                if self._left < 0:
                    raise
        raise Impossible


def _type_of(schema: dict[str, Any]) -> str:
    declared = schema.get("type")
    if isinstance(declared, list):
        return next((name for name in _ORDER if name in declared), "null")
    if isinstance(declared, str):
        return declared
    if "properties" in schema or "required" in schema:
        return "object"
    return "array" if "items" in schema else "string"


def _string(schema: dict[str, Any]) -> str:
    if schema.get("format") in _FORMATS and "pattern" not in schema:
        return _FORMATS[schema["format"]]
    least, most = schema.get("minLength", 0), schema.get("maxLength", math.inf)
    pattern = schema.get("pattern")
    if least > _LONGEST or (pattern is not None and not _is_quick(pattern)):
        raise Impossible
    for candidate in _CANDIDATES:
        text = candidate.ljust(least, "x") if pattern is None else candidate
        text = text[: int(most)] if pattern is None and most < math.inf else text
        if least <= len(text) <= most and (pattern is None or re.search(pattern, text)):
            return text
    raise Impossible


def _is_quick(pattern: str) -> bool:
    """Whether a client's expression surely ends soon: few branches, and no repeated group, which may hold a repeat."""
    if len(pattern) > _LONGEST_PATTERN:
        return False
    bare = _ATOMS.sub("x", pattern)
    branches = sum(bare.replace("(?", "(").count(sign) for sign in "*+?{|")
    return branches <= _BRANCHES and _SLOW.search(bare) is None and _FLAGS.search(pattern) is None


def _number(schema: dict[str, Any], *, whole: bool) -> int | float:
    step = schema.get("multipleOf", 1 if whole else 0)
    least, most = schema.get("minimum", -math.inf), schema.get("maximum", math.inf)
    above, below = schema.get("exclusiveMinimum", -math.inf), schema.get("exclusiveMaximum", math.inf)
    low, high = max(least, above), min(most, below)
    ends = [end for end in (low, high) if math.isfinite(end)]
    candidates = [1, *ends, *(end + 1 for end in ends), *(end - 1 for end in ends)]
    if len(ends) == len((low, high)):
        candidates.append((low + high) / 2)
    if step:
        # The nearest multiples on both sides of every candidate, in the same order.
        candidates = [math.floor(value / step) * step + side for value in candidates for side in (0, step)]
    for value in candidates:
        if least <= value <= most and above < value < below:
            return int(value) if value == int(value) else value
    raise Impossible


def _merged(parts: list[Any], root: dict[str, Any]) -> dict[str, Any]:
    whole: dict[str, Any] = {}
    for part in parts:
        if part is True:
            continue
        if not isinstance(part, dict):
            raise Impossible
        own = _target(part["$ref"], root) if "$ref" in part else part
        required = [*whole.get("required", ()), *(name for name in own.get("required", ()))]
        properties = whole.get("properties", {}) | own.get("properties", {})
        whole |= own
        if required:
            whole["required"] = list(dict.fromkeys(required))
        if properties:
            whole["properties"] = properties
    return whole


def _target(reference: object, root: dict[str, Any]) -> dict[str, Any]:
    if not isinstance(reference, str) or not reference.startswith("#"):
        raise Impossible
    found: Any = root
    for step in reference[1:].split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if not isinstance(found, dict) or name not in found:
            raise Impossible
        found = found[name]
    if not isinstance(found, dict):
        raise Impossible
    return found
