"""Tools as gpt-oss is shown them: functions in a namespace, their parameters as TypeScript types.

A type says what a model needs to write arguments: names, types, what is required, values to choose from, defaults and
descriptions. A schema that says no more than that a value exists is `any`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from upstream.templates.functions import functions

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from upstream.stages.resolve import Tool

_SCALARS: Final = {"string": "string", "number": "number", "integer": "number", "boolean": "boolean", "null": "null"}
_INDENT: Final = "    "
_MAX_DEPTH: Final = 32


def namespace(name: str, tools: Iterable[Tool]) -> str:
    """The namespace with all tools in it."""
    told = "".join(f"{_function(one['function'])}\n\n" for one in functions(tools))
    return f"namespace {name} {{\n\n{told}}} // namespace {name}"


def _function(function: dict[str, Any]) -> str:
    comment = "".join(f"{line}\n" for line in _comment(function.get("description"), ""))
    schema = function["parameters"]
    argument = (
        f"_: {_type(schema, '', 0)}" if schema.get("properties") or schema.keys() - {"type", "properties"} else ""
    )
    return f"{comment}type {function['name']} = ({argument}) => any;"


def _type(schema: Any, indent: str, depth: int) -> str:
    if not isinstance(schema, dict) or depth > _MAX_DEPTH:
        return "any"
    if isinstance(values := schema.get("enum"), list) and values:
        made = _union(_json(value) for value in values)
    elif variants := next((schema[one] for one in ("anyOf", "oneOf") if isinstance(schema.get(one), list)), None):
        made = _union(_type(variant, indent, depth + 1) for variant in variants)
    elif isinstance(kinds := schema.get("type"), list):
        made = _union(_type(schema | {"type": kind}, indent, depth + 1) for kind in kinds)
    elif kinds == "array":
        made = _array(schema.get("items"), indent, depth)
    elif kinds == "object" or isinstance(schema.get("properties"), dict):
        made = _object(schema, indent, depth)
    else:
        made = _SCALARS.get(kinds, "any") if isinstance(kinds, str) else "any"
    return _union([made, "null"]) if schema.get("nullable") is True else made


def _union(types: Iterable[str]) -> str:
    return " | ".join(dict.fromkeys(types))


def _array(items: Any, indent: str, depth: int) -> str:
    if not isinstance(items, dict) or not items:
        return "Array<any>"
    of = _type(items, indent, depth + 1)
    return f"Array<{of}>" if " | " in of and not of.startswith("{") else f"{of}[]"


def _object(schema: dict[str, Any], indent: str, depth: int) -> str:
    properties, required = schema.get("properties"), schema.get("required")
    lines: list[str] = []
    for name, value in properties.items() if isinstance(properties, dict) else ():
        told = value if isinstance(value, dict) else {}
        mark = "" if isinstance(required, list) and name in required else "?"
        lines += _comment(told.get("description"), indent)
        default = f" // default: {_default(told)}" if "default" in told else ""
        lines.append(f"{indent}{name}{mark}: {_type(told, indent + _INDENT, depth + 1)},{default}")
    return "".join(["{\n", *(f"{line}\n" for line in lines), indent, "}"])


def _comment(text: Any, indent: str) -> Iterator[str]:
    """Each line of a description is one of the comment, or it would be read as a part of the type."""
    if isinstance(text, str) and text:
        yield from (f"{indent}// {line}".rstrip() for line in text.splitlines())


def _default(schema: dict[str, Any]) -> str:
    value = schema["default"]
    return " ".join(value.splitlines()) if isinstance(value, str) and "enum" in schema else _json(value)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
