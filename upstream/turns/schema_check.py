"""Whether a JSON schema that a request sends is one, and whether it fits the rules of strict structured output.

Structural: every keyword that is known has a value of the shape that it needs, and every reference leads somewhere.
In strict mode the API's further rules hold: the root is an object, objects are closed and require all their
properties, and keywords that would make the answer depend on itself are not permitted.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from wire.errors import ApiError, invalid_request

if TYPE_CHECKING:
    from collections.abc import Iterator

_TYPES: Final = frozenset({"object", "array", "string", "number", "integer", "boolean", "null"})
_MAPS: Final = ("properties", "$defs", "definitions", "patternProperties", "dependentSchemas")
_LISTS: Final = ("anyOf", "oneOf", "allOf", "prefixItems")
_SINGLE: Final = ("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames")
_COUNTS: Final = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")
_NUMBERS: Final = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_STRICT_REFUSES: Final = ("allOf", "oneOf", "not", "if", "then", "else", "dependentRequired", "dependentSchemas")
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_DEPTH: Final = 64
_Path = tuple[str, ...]


class _Wrong(Exception):
    """What is wrong with the schema, and where."""

    def __init__(self, path: _Path, what: str) -> None:
        super().__init__(what)
        self.path, self.what = path, what


def check_format(name: str, schema: dict[str, Any], *, strict: bool) -> None:
    """Raise `ApiError` unless `name` and `schema` can stand in a `json_schema` format."""
    if not _NAME.fullmatch(name):
        raise invalid_request(
            "Invalid 'text.format.name': expected 1 to 64 letters, digits, underscores or hyphens.",
            param="text.format.name",
            code="invalid_value",
        )
    try:
        if strict:
            _strict_root(schema)
        _check(schema, schema, (), strict=strict)
    except _Wrong as wrong:
        raise _invalid(name, wrong) from None


def _strict_root(schema: dict[str, Any]) -> None:
    if "anyOf" in schema:
        raise _Wrong((), "schema must be a JSON Schema of 'type: \"object\"', and not use 'anyOf' at the top level.")
    if schema.get("type") != "object" and "$ref" not in schema:
        raise _Wrong((), "schema must be a JSON Schema of 'type: \"object\"'.")


def _check(schema: Any, root: dict[str, Any], path: _Path, *, strict: bool) -> None:
    if isinstance(schema, bool):
        return
    if not isinstance(schema, dict):
        raise _Wrong(path, "a schema must be an object or a boolean.")
    if len(path) > _DEPTH:
        raise _Wrong((), f"the schema is nested more than {_DEPTH} levels deep.")
    _check_values(schema, path)
    if "$ref" in schema and not _resolves(schema["$ref"], root):
        raise _Wrong(path, "'$ref' leads nowhere in this schema.")
    if strict:
        _check_strict(schema, path)
    for step, inner in _inside(schema, path):
        _check(inner, root, step, strict=strict)


def _check_values(schema: dict[str, Any], path: _Path) -> None:
    declared = schema.get("type", "object")
    named = declared if isinstance(declared, list) else [declared]
    if not named or not all(isinstance(one, str) and one in _TYPES for one in named) or len({*named}) < len(named):
        raise _Wrong(path, f"'type' must be one of {', '.join(sorted(_TYPES))}, or a list of them.")
    required = schema.get("required", [])
    if not isinstance(required, list) or not all(isinstance(one, str) for one in required):
        raise _Wrong(path, "'required' must be an array of strings.")
    if len({*required}) < len(required):
        raise _Wrong(path, "'required' names a property twice.")
    if "enum" in schema and (not isinstance(schema["enum"], list) or not schema["enum"]):
        raise _Wrong(path, "'enum' must be an array with at least one value.")
    for keyword in _COUNTS:
        value = schema.get(keyword, 0)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise _Wrong(path, f"'{keyword}' must be an integer of at least 0.")
    for keyword in _NUMBERS:
        value = schema.get(keyword, 1)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise _Wrong(path, f"'{keyword}' must be a number.")
    if schema.get("multipleOf", 1) <= 0:
        raise _Wrong(path, "'multipleOf' must be greater than 0.")
    _check_pattern(schema.get("pattern", ""), path)


def _check_pattern(pattern: Any, path: _Path) -> None:
    if not isinstance(pattern, str):
        raise _Wrong(path, "'pattern' must be a string.")
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError):
        raise _Wrong(path, "'pattern' is not a regular expression that is understood here.") from None


def _check_strict(schema: dict[str, Any], path: _Path) -> None:
    for keyword in _STRICT_REFUSES:
        if keyword in schema:
            raise _Wrong(path, f"'{keyword}' is not permitted.")
    declared = schema.get("type")
    if declared != "object" and not (isinstance(declared, list) and "object" in declared):
        return
    if schema.get("additionalProperties") is not False:
        raise _Wrong(path, "'additionalProperties' is required to be supplied and to be false.")
    properties, required = schema.get("properties", {}), schema.get("required")
    if isinstance(properties, dict) and properties and set(required or ()) != set(properties):
        raise _Wrong(
            path,
            "'required' is required to be supplied and to be an array including every key in properties.",
        )


def _inside(schema: dict[str, Any], path: _Path) -> Iterator[tuple[_Path, Any]]:
    for keyword in _MAPS:
        named = schema.get(keyword, {})
        if not isinstance(named, dict):
            raise _Wrong(path, f"'{keyword}' must be an object of schemas.")
        for name, inner in named.items():
            yield (*path, keyword, name), inner
    for keyword in _LISTS:
        if keyword in schema:
            parts = schema[keyword]
            if not isinstance(parts, list) or not parts:
                raise _Wrong(path, f"'{keyword}' must be an array with at least one schema.")
            for index, inner in enumerate(parts):
                yield (*path, keyword, str(index)), inner
    for keyword in _SINGLE:
        if keyword in schema:
            yield (*path, keyword), schema[keyword]


def _resolves(reference: Any, root: dict[str, Any]) -> bool:
    if not isinstance(reference, str) or not reference.startswith("#"):
        return False
    found: Any = root
    for step in reference[1:].split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(found, list) and name.isdecimal() and int(name) < len(found):
            found = found[int(name)]
        elif isinstance(found, dict) and name in found:
            found = found[name]
        else:
            return False
    return isinstance(found, dict | bool)


def _invalid(name: str, wrong: _Wrong) -> ApiError:
    where = "(" + ", ".join(f"'{step[:64]}'" for step in wrong.path) + ("," if len(wrong.path) == 1 else "") + ")"
    return invalid_request(
        f"Invalid schema for response_format '{name}': In context={where}, {wrong.what}",
        param="text.format.schema",
        code="invalid_json_schema",
    )
