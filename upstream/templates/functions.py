"""Tools as functions of other APIs, and back: one flat list of names, each a string of letters, digits, `_` and `-`.

A custom tool, whose input is free text, is a function with one string parameter.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING, Any

from upstream.problems import unsupported

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from upstream.stages.items import Item
    from upstream.stages.resolve import Tool
    from upstream.templates.parts import Told

CUSTOM_INPUT = "input"
"""The parameter that carries a custom tool's text."""
ADDITIONAL = "additional_tools"
"""The type of items that offer more tools; these are shown with the others, not where the item stands."""
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_OTHER = re.compile(r"[^A-Za-z0-9_-]")
_KEPT = 55
_DIGEST = 4
_NOT_ARGUMENTS = frozenset({"type", "id", "call_id", "status", "namespace"})
_CUSTOM = {
    "type": "object",
    "properties": {CUSTOM_INPUT: {"type": "string", "description": "The tool's whole input, as plain text."}},
    "required": [CUSTOM_INPUT],
    "additionalProperties": False,
}


def function_name(name: str, namespace: str = "") -> str:
    """The name that stands for a tool. Names that another API would refuse are shortened and end in a digest."""
    full = f"{namespace}{'' if namespace.endswith('__') else '__'}{name}" if namespace else name
    if _NAME.fullmatch(full):
        return full
    digest = hashlib.blake2b(full.encode(errors="surrogatepass"), digest_size=_DIGEST).hexdigest()
    return f"{_OTHER.sub('_', full)[:_KEPT]}_{digest}"


def by_name(tools: Iterable[Tool]) -> dict[str, Tool]:
    """Each tool under the name that stands for it."""
    return {function_name(tool.name, tool.namespace): tool for tool in tools}


def functions(tools: Iterable[Tool]) -> list[dict[str, Any]]:
    """The tools as the `tools` member of chat completions."""
    return [_function(name, tool) for name, tool in by_name(tools).items()]


def offered(prompt: Told) -> tuple[tuple[Tool, ...], Any]:
    """The tools that this turn may call and its `tool_choice` as chat completions have it; None for `auto`."""
    choice = prompt.tool_choice
    if isinstance(choice, str):
        return prompt.tools, None if choice == "auto" else choice
    kind = choice.get("type")
    if kind in {"function", "custom"}:
        name = next(iter(_named(prompt.tools, [choice])), str(choice.get("name")))
        return prompt.tools, {"type": "function", "function": {"name": name}}
    if kind == "allowed_tools":
        allowed = set(_named(prompt.tools, choice.get("tools") or ()))
        tools = tuple(tool for tool in prompt.tools if function_name(tool.name, tool.namespace) in allowed)
        return tools, "required" if choice.get("mode") == "required" else None
    raise unsupported("tool_choice", "The engine calls functions and custom tools only.")


def value_of(written: str) -> Any:
    """The JSON that a model wrote. Raises `ValueError` for what is none, or cannot be told in UTF-8 to any reader."""
    try:
        value = json.loads(written)
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()  # no half of a surrogate pair, no infinity
    except RecursionError:
        raise ValueError("nested too deeply") from None
    return value


def custom_arguments(text: str) -> str:
    """A custom tool's input as a function's arguments."""
    return json.dumps({CUSTOM_INPUT: text}, ensure_ascii=False)


def custom_input(arguments: str) -> str:
    """A custom tool's input out of the arguments that a model wrote; they themselves when they are not of that form."""
    try:
        value = value_of(arguments)
    except ValueError:
        return arguments
    if isinstance(value, dict) and isinstance(text := value.get(CUSTOM_INPUT), str):
        return text
    return value if isinstance(value, str) else arguments


def call_of(item: Item) -> tuple[str, str]:
    """A call's name and its arguments, as those of a function."""
    value = item.value()
    name, namespace = item.name or item.type.removesuffix("_call"), value.get("namespace")
    if item.type == "custom_tool_call":
        arguments = custom_arguments(str(value.get("input", "")))
    elif item.type == "function_call":
        arguments = str(value.get("arguments", ""))
    else:
        arguments = json.dumps({key: value[key] for key in value if key not in _NOT_ARGUMENTS}, ensure_ascii=False)
    return function_name(name, namespace if isinstance(namespace, str) else ""), arguments


def _named(tools: Sequence[Tool], wanted: Iterable[Any]) -> list[str]:
    return list(_each_named(tools, [one for one in wanted if isinstance(one, dict)]))


def _each_named(tools: Sequence[Tool], wanted: Sequence[dict[str, Any]]) -> Iterator[str]:
    for tool in tools:
        if any(
            one.get("name") == tool.name and one.get("namespace", tool.namespace) == tool.namespace for one in wanted
        ):
            yield function_name(tool.name, tool.namespace)


def _function(name: str, tool: Tool) -> dict[str, Any]:
    function: dict[str, Any] = {"name": name}
    if tool.description:
        function["description"] = tool.description
    if tool.type == "custom":
        function["parameters"] = _CUSTOM
    else:
        function["parameters"] = tool.parameters or {"type": "object", "properties": {}}
        if tool.strict is not None:
            function["strict"] = tool.strict
    return {"type": "function", "function": function}
